#pragma once

/// \file
/// Counter-based random numbers: the same bits on every device, in any order of evaluation.

#include <array>
#include <cstdint>
#include <limits>

namespace fulcrum {

/// Philox-4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011): four
/// random words from a 128-bit counter and a 64-bit key.
constexpr std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                  std::array<std::uint32_t, 2> key) {
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * counter[0];
        const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * counter[2];
        counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
                   static_cast<std::uint32_t>(product1),
                   static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
                   static_cast<std::uint32_t>(product0)};
        key[0] += 0x9E3779B9U;
        key[1] += 0xBB67AE85U;
    }
    return counter;
}

/// Four random words for position `index` of stream `stream` under `seed`.
constexpr std::array<std::uint32_t, 4> random_words(std::uint64_t seed, std::uint64_t stream,
                                                    std::uint64_t index) {
    return philox4x32({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                       static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)},
                      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
}

/// A sequence of streams under one seed. A consumer that needs many numbers (a dropout mask, a weight) takes
/// one stream and indexes into it; the state is two integers, which a checkpoint keeps.
class Generator {
  public:
    /// Everything that a checkpoint needs to continue.
    struct State {
        std::uint64_t seed = 0;
        std::uint64_t next_stream = 0;
        friend bool operator==(const State&, const State&) = default;
    };

    explicit Generator(std::uint64_t seed = 0) : state_{seed, 0} {}

    std::uint64_t seed() const { return state_.seed; }
    /// Takes the next unused stream.
    std::uint64_t take_stream() { return state_.next_stream++; }
    State state() const { return state_; }
    void set_state(State state) { state_ = state; }

  private:
    State state_;
};

/// Reads one stream of a seed number by number. Cheap to make; keeps no heap memory.
class RandomStream {
  public:
    RandomStream(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}

    /// The next 32 random bits.
    std::uint32_t next();
    /// Uniform in `0..bound-1` without bias (Lemire's multiplication with rejection); `bound` > 0.
    std::uint32_t below(std::uint32_t bound);
    /// Uniform in [0, 1) with 53 bits.
    double uniform();
    /// Standard normal (Box-Muller).
    double normal();

  private:
    std::uint64_t seed_;
    std::uint64_t stream_;
    std::uint64_t index_ = 0;
    std::array<std::uint32_t, 4> words_{};
    int left_ = 0;
    double spare_ = std::numeric_limits<double>::quiet_NaN();
};

/// The generator that ops and modules use when none is given. One per thread.
Generator& default_generator();

/// Restarts the default generator of this thread from `seed`.
void manual_seed(std::uint64_t seed);

}  // namespace fulcrum
