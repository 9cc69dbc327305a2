#include "core/ops/dropout.h"

#include "kernels/cpu/backend.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/parallel.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace fulcrum::cpu {
namespace {

/// Counters drawn together. One Philox round is the same straight-line code for all of them, so that the
/// compiler puts them into vector lanes.
constexpr std::size_t kCounters = 16;
/// Random words of one draw, in the order of `random_words`.
using Words = std::array<std::uint32_t, 4 * kCounters>;

/// `random_words(seed, stream, first + i)` for `kCounters` consecutive `i`.
void draw(std::uint64_t seed, std::uint64_t stream, std::uint64_t first, Words& words) {
    for (std::size_t i = 0; i < kCounters; ++i) {
        const auto four = random_words(seed, stream, first + i);
        for (std::size_t word = 0; word < 4; ++word)
            words[4 * i + word] = four[word];
    }
}

template <class T>
void apply(const DropoutParams& params, const T* x, T* output, std::int64_t count) {
    using A = Arithmetic<T>;
    constexpr auto kBlock = static_cast<std::int64_t>(4 * kCounters);
    const A scale = static_cast<A>(params.scale);
    const std::int64_t blocks = (count + kBlock - 1) / kBlock;
    parallel_for(blocks, 64, [=](std::int64_t begin, std::int64_t end) {
        Words words;
        for (std::int64_t block = begin; block < end; ++block) {
            draw(params.seed, params.stream, static_cast<std::uint64_t>(block) * kCounters, words);
            const T* from = x + block * kBlock;
            T* to = output + block * kBlock;
            const std::int64_t length = std::min(kBlock, count - block * kBlock);
            for (std::int64_t i = 0; i < length; ++i) {
                // A selection, not a product: a dropped NaN is gone.
                const bool dropped = words[static_cast<std::size_t>(i)] < params.threshold;
                to[i] = dropped ? T(A{0}) : T(A(from[i]) * scale);
            }
        }
    });
}

void apply(const DropoutParams& params, const Tensor& x, Tensor& output) {
    visit_floating(x.dtype(), "dropout", [&](auto tag) {
        using T = typename decltype(tag)::type;
        apply(params, static_cast<const T*>(x.raw_data()), static_cast<T*>(output.raw_data()), x.numel());
    });
}

}  // namespace

const DropoutKernels& dropout_kernels() {
    static constexpr DropoutKernels kKernels{apply};
    return kKernels;
}

}  // namespace fulcrum::cpu
