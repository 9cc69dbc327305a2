#include "core/threads.h"

#include "core/error.h"

#include <omp.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <sched.h>
#include <set>
#include <string>
#include <thread>
#include <utility>

namespace fulcrum {

namespace {

std::atomic<int> chosen{0};
thread_local int limit = 0;

void check_count(int count) {
    if (count < 1) {
        throw ValueError("number of threads must be at least 1, not " + std::to_string(count));
    }
}

int read_number(const std::string& path) {
    std::ifstream file(path);
    int value = -1;
    file >> value;
    return value;
}

// Two hyper-threads of one core share its vector units, so a second thread there only costs synchronisation.
int physical_cores() {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
        return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    }
    std::set<std::pair<int, int>> cores;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (!CPU_ISSET(cpu, &allowed)) continue;
        const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
        const int core = read_number(folder + "core_id");
        cores.insert(core < 0 ? std::pair{-1, cpu}
                              : std::pair{read_number(folder + "physical_package_id"), core});
    }
    return std::max(1, static_cast<int>(cores.size()));
}

int default_threads() {
    static const int count =
        std::getenv("OMP_NUM_THREADS") != nullptr ? omp_get_max_threads() : physical_cores();
    return count;
}

}  // namespace

void set_num_threads(int count) {
    check_count(count);
    chosen = count;
}

int num_threads() {
    // Asked before OpenMP's own default is touched, since that default is one of the sources.
    const int fallback = default_threads();
    const int all = chosen > 0 ? chosen.load() : fallback;
    const int count = limit > 0 ? std::min(limit, all) : all;
    if (omp_get_max_threads() != count) omp_set_num_threads(count);
    return count;
}

ThreadLimitGuard::ThreadLimitGuard(int count) : previous_(limit) {
    check_count(count);
    limit = count;
}

ThreadLimitGuard::~ThreadLimitGuard() {
    limit = previous_;
}

}  // namespace fulcrum
