#include "core/random.h"

#include <cmath>
#include <numbers>

namespace fulcrum {

std::uint32_t RandomStream::next() {
    if (left_ == 0) {
        words_ = random_words(seed_, stream_, index_++);
        left_ = 4;
    }
    return words_[static_cast<std::size_t>(4 - left_--)];
}

std::uint32_t RandomStream::below(std::uint32_t bound) {
    std::uint64_t product = std::uint64_t{next()} * bound;
    if (static_cast<std::uint32_t>(product) < bound) {
        const std::uint32_t threshold = (0U - bound) % bound;
        while (static_cast<std::uint32_t>(product) < threshold)
            product = std::uint64_t{next()} * bound;
    }
    return static_cast<std::uint32_t>(product >> 32);
}

double RandomStream::uniform() {
    const std::uint64_t high = next();
    const std::uint64_t low = next();
    return static_cast<double>(((high << 32) | low) >> 11) * 0x1p-53;
}

double RandomStream::normal() {
    if (!std::isnan(spare_)) {
        const double value = spare_;
        spare_ = std::numeric_limits<double>::quiet_NaN();
        return value;
    }
    const double radius = std::sqrt(-2.0 * std::log1p(-uniform()));
    const double angle = 2.0 * std::numbers::pi * uniform();
    spare_ = radius * std::sin(angle);
    return radius * std::cos(angle);
}

Generator& default_generator() {
    thread_local Generator generator;
    return generator;
}

void manual_seed(std::uint64_t seed) {
    default_generator().set_state({seed, 0});
}

}  // namespace fulcrum
