#include "progress.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <sys/ioctl.h>
#include <unistd.h>

namespace train_cifar10 {

namespace {

constexpr std::chrono::milliseconds kTerminalInterval{100};
constexpr std::chrono::seconds kPlainInterval{10};
constexpr int kBarWidth = 24;

int terminal_width() {
    winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
    return size.ws_col;
}

std::string bar(std::int64_t done, std::int64_t all) {
    const auto filled = static_cast<std::size_t>(kBarWidth * done / std::max<std::int64_t>(1, all));
    return std::string(filled, '#') + std::string(kBarWidth - filled, '.');
}

}  // namespace

std::string clock_text(double seconds) {
    const auto whole = static_cast<std::int64_t>(std::clamp(seconds, 0.0, 1e9) + 0.5);
    const std::int64_t minutes = whole / 60 % 60;
    if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, minutes, whole % 60);
    return fmt::format("{}:{:02}", minutes, whole % 60);
}

Progress::Progress(std::int64_t epochs, std::int64_t steps, std::int64_t first_step)
    : epochs_(epochs), steps_(steps), first_step_(first_step), terminal_(isatty(STDOUT_FILENO) == 1) {}

void Progress::step(const fulcrum::nn::StepReport& report) {
    const Clock::time_point now = Clock::now();
    const Clock::duration interval =
        terminal_ ? Clock::duration(kTerminalInterval) : Clock::duration(kPlainInterval);
    if (now - displayed_ < interval) return;
    displayed_ = now;

    // Evaluations are part of this pace, so the time left is that until the end of the run.
    const double pace = std::chrono::duration<double>(now - started_).count() /
                        static_cast<double>(std::max<std::int64_t>(1, report.step - first_step_));
    const double left = pace * static_cast<double>(steps_ - report.step);
    const auto& stats = report.stats;
    const std::string numbers = fmt::format(
        "{}/{}  loss {:.4f}  accuracy {:.1f}%  {:.0f} images/s  {} left", stats.steps, report.steps_in_epoch,
        stats.train.loss(), 100.0 * stats.train.accuracy(), stats.images_per_second(), clock_text(left));
    const std::string head = fmt::format("epoch {}/{}  ", stats.epoch + 1, epochs_);
    if (!terminal_) {
        fmt::print("{}{}\n", head, numbers);
        std::fflush(stdout);
        return;
    }
    std::string line = head + "[" + bar(stats.steps, report.steps_in_epoch) + "] " + numbers;
    line.resize(std::min<std::size_t>(line.size(), static_cast<std::size_t>(terminal_width() - 1)));
    fmt::print("\r\x1b[K{}", line);
    std::fflush(stdout);
    shown_ = true;
}

void Progress::clear() {
    if (!shown_) return;
    fmt::print("\r\x1b[K");
    shown_ = false;
}

}  // namespace train_cifar10
