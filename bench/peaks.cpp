#include "bench/peaks.h"

#include "bench/measure.h"

#include <fulcrum/fulcrum.h>

#include <algorithm>
#include <cstdint>

namespace fulcrum::bench {

namespace {

/// The fastest of `count` calls, in seconds: a peak is what is left when nothing disturbs.
template <class Function>
double fastest(int count, const Function& function) {
    function();
    double best = 0.0;
    for (int i = 0; i < count; ++i) {
        const auto begin = Clock::now();
        function();
        const double seconds = 1e-3 * milliseconds_since(begin);
        best = i == 0 ? seconds : std::min(best, seconds);
    }
    return best;
}

}  // namespace

double gemm_peak(DType dtype) {
    const autograd::NoGradGuard no_grad;
    double peak = 0.0;
    for (const std::int64_t size : {1024, 1536, 2048}) {
        const Tensor a = uniform({size, size}, -1.0, 1.0).to(dtype);
        const Tensor b = uniform({size, size}, -1.0, 1.0).to(dtype);
        const double seconds = fastest(8, [&] { matmul(a, b); });
        const auto side = static_cast<double>(size);
        peak = std::max(peak, 2e-9 * side * side * side / seconds);
    }
    return peak;
}

double copy_peak() {
    constexpr std::int64_t kBytes = std::int64_t{64} << 20;
    const Tensor from = zeros({kBytes}, {.dtype = DType::u8});
    const Tensor to = zeros({kBytes}, {.dtype = DType::u8});
    return 2e-9 * static_cast<double>(kBytes) / fastest(12, [&] { to.copy_(from); });
}

}  // namespace fulcrum::bench
