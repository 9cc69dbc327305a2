#pragma once

/// \file
/// Loops over the CPU backend's threads.

#include "core/threads.h"

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <exception>

namespace fulcrum::cpu {

/// Where part `index` of `parts` nearly equal pieces of `count` begins.
inline std::int64_t part_begin(std::int64_t count, std::int64_t parts, std::int64_t index) {
    return count / parts * index + std::min(index, count % parts);
}

/// How many threads a loop of `count` items is worth when each thread should get at least `grain`.
inline int worthwhile_threads(std::int64_t count, std::int64_t grain) {
    const std::int64_t useful = std::max<std::int64_t>(1, count / std::max<std::int64_t>(1, grain));
    return static_cast<int>(std::min<std::int64_t>(num_threads(), useful));
}

/// Calls `body(begin, end)` on disjoint pieces that cover `0..count-1`, one piece a thread. The split depends
/// only on the count and the number of threads, so a body that works piece by piece gives the same bits every
/// time. An exception from a body is rethrown here. \param grain the fewest items that are worth a thread.
template <class Body>
void parallel_for(std::int64_t count, std::int64_t grain, const Body& body) {
    if (count <= 0) return;
    const int threads = worthwhile_threads(count, grain);
    if (threads == 1 || omp_in_parallel() != 0) {
        body(std::int64_t{0}, count);
        return;
    }
    std::exception_ptr failure;
    // The whole team each time: a smaller one would end the threads it has no use for, and the next region
    // would start them anew.
#pragma omp parallel num_threads(num_threads())
    {
        const std::int64_t parts = std::min(threads, omp_get_num_threads());
        const std::int64_t part = omp_get_thread_num();
        try {
            if (part < parts) body(part_begin(count, parts, part), part_begin(count, parts, part + 1));
        } catch (...) {
#pragma omp critical(fulcrum_parallel_for)
            failure = std::current_exception();
        }
    }
    if (failure) std::rethrow_exception(failure);
}

}  // namespace fulcrum::cpu
