#include "data/sampler.h"

#include "core/error.h"
#include "core/random.h"

#include <fmt/format.h>

#include <limits>
#include <numeric>
#include <utility>

namespace fulcrum::data {

std::vector<std::int64_t> epoch_order(std::int64_t count, std::uint64_t seed, std::uint64_t epoch,
                                      bool shuffle) {
    if (count < 0 || count > std::numeric_limits<std::uint32_t>::max()) {
        throw ValueError(fmt::format("epoch_order: count is {}; it must be 0..4294967295", count));
    }
    std::vector<std::int64_t> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    if (!shuffle) return order;
    RandomStream random(seed, shuffle_stream(epoch));
    for (std::size_t i = order.size(); i > 1; --i) {
        std::swap(order[i - 1], order[random.below(static_cast<std::uint32_t>(i))]);
    }
    return order;
}

}  // namespace fulcrum::data
