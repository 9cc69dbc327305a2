#include "stop_signal.h"

#include <csignal>
#include <thread>
#include <unistd.h>

namespace train_cifar10 {

namespace {

std::atomic<bool> wanted{false};

sigset_t stop_signals() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    return signals;
}

void watch() {
    const sigset_t signals = stop_signals();
    int signal = 0;
    sigwait(&signals, &signal);
    wanted = true;
    constexpr char kText[] = "\nstopping after this step; once more to end at once\n";
    // Nothing can be done where even this cannot be written.
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText, sizeof(kText) - 1);
    sigwait(&signals, &signal);
    std::signal(signal, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    std::raise(signal);
}

}  // namespace

void catch_stop_signals() {
    // A signal that a shell made a background program ignore would never be waited for.
    struct sigaction action {};
    action.sa_handler = [](int) {};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
    // Blocked in every thread and waited for in one that does nothing else: generated matrix kernels use the
    // stack pointer as an ordinary register, and a signal that came while they run would write its frame
    // into whatever it points to.
    const sigset_t signals = stop_signals();
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    std::thread(watch).detach();
}

const std::atomic<bool>& stop_wanted() {
    return wanted;
}

}  // namespace train_cifar10
