#include "bench/measure.h"

#include "core/error.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sched.h>
#include <sstream>
#include <string>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fulcrum::bench {

namespace {

/// The last core of this process's set, alone.
cpu_set_t last_core() {
    cpu_set_t allowed;
    cpu_set_t last;
    CPU_ZERO(&allowed);
    CPU_ZERO(&last);
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
        throw Error("the system does not tell our cores");
    for (int cpu = CPU_SETSIZE - 1; cpu >= 0; --cpu) {
        if (!CPU_ISSET(cpu, &allowed)) continue;
        CPU_SET(cpu, &last);
        break;
    }
    return last;
}

}  // namespace

double milliseconds_since(Clock::time_point begin) {
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

double milliseconds_since_process_start() {
    // Field 22 of proc(5)'s stat, in ticks since boot; the second field may hold blanks and ends at the last
    // ')'.
    std::ifstream file("/proc/self/stat");
    std::string text{std::istreambuf_iterator<char>(file), {}};
    std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 1)));
    constexpr int kStartTime = 20;
    std::string field;
    for (int i = 0; i < kStartTime; ++i)
        fields >> field;
    if (!fields) throw Error("/proc/self/stat does not tell when this process started");
    timespec now{};
    clock_gettime(CLOCK_BOOTTIME, &now);
    const double begin =
        1e3 * std::strtod(field.c_str(), nullptr) / static_cast<double>(sysconf(_SC_CLK_TCK));
    return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec) - begin;
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const std::size_t half = values.size() / 2;
    return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2.0;
}

double peak_rss_mib() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

void repeat(const std::function<void()>& step, int count, int least, double seconds) {
    const auto begin = Clock::now();
    for (int i = 0; i < count && (i < least || milliseconds_since(begin) < 1e3 * seconds); ++i)
        step();
}

BusyNeighbour::BusyNeighbour() : process_(-1) {
    const cpu_set_t core = last_core();
    process_ = fork();
    if (process_ < 0) throw Error("no process can be started to keep a core busy");
    if (process_ > 0) return;
    // At an ordinary priority whatever ours is: two real-time processes would never give way to each other.
    const sched_param ordinary{};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (sched_setscheduler(0, SCHED_OTHER, &ordinary) != 0) _exit(1);
    if (sched_setaffinity(0, sizeof(core), &core) != 0) _exit(1);
    volatile unsigned spins = 0;
    for (;;)
        spins = spins + 1;
}

BusyNeighbour::~BusyNeighbour() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
}

}  // namespace fulcrum::bench
