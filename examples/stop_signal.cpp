#include "stop_signal.h"

#include <csignal>
#include <unistd.h>

namespace train_cifar10 {

namespace {

std::atomic<bool> wanted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may only touch lock-free atomics");

void handle(int) {
    wanted = true;
    constexpr char kText[] = "\nstopping after this step; once more to end at once\n";
    // Nothing can be done where even this cannot be written.
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText, sizeof(kText) - 1);
    ::signal(SIGINT, SIG_DFL);
    ::signal(SIGTERM, SIG_DFL);
}

}  // namespace

void catch_stop_signals() {
    struct sigaction action {};
    action.sa_handler = handle;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
}

const std::atomic<bool>& stop_wanted() {
    return wanted;
}

}  // namespace train_cifar10
