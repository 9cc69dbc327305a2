#include "data/sampler.h"

#include "core/error.h"
#include "tests/catch.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <set>
#include <vector>

namespace fulcrum::data {

TEST_CASE("an epoch's order is a permutation of the set") {
    const std::int64_t count = GENERATE(0, 1, 2, 3, 20, 1000);
    for (const bool shuffle : {false, true}) {
        std::vector<std::int64_t> order = epoch_order(count, 1, 0, shuffle);
        std::sort(order.begin(), order.end());
        std::vector<std::int64_t> ascending(static_cast<std::size_t>(count));
        std::iota(ascending.begin(), ascending.end(), std::int64_t{0});
        CHECK(order == ascending);
    }
}

TEST_CASE("without shuffling every epoch is in ascending order") {
    CHECK(epoch_order(5, 1, 0, false) == std::vector<std::int64_t>{0, 1, 2, 3, 4});
    CHECK(epoch_order(5, 2, 9, false) == std::vector<std::int64_t>{0, 1, 2, 3, 4});
}

TEST_CASE("the shuffled order follows from seed and epoch alone") {
    CHECK(epoch_order(20, 1, 0, true) == epoch_order(20, 1, 0, true));
    std::set<std::vector<std::int64_t>> orders;
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
        for (std::uint64_t epoch = 0; epoch < 10; ++epoch)
            orders.insert(epoch_order(20, seed, epoch, true));
    }
    CHECK(orders.size() == 30);
}

TEST_CASE("the shuffled order has the same bits on every machine") {
    CHECK(epoch_order(12, 1, 0, true) == std::vector<std::int64_t>{2, 4, 5, 6, 3, 8, 0, 10, 1, 7, 11, 9});
    CHECK(epoch_order(12, 1, 1, true) == std::vector<std::int64_t>{9, 3, 0, 5, 8, 7, 2, 11, 10, 6, 1, 4});
}

TEST_CASE("every image comes to every place equally often") {
    // 6,000 shuffles of 6: each of the 36 counts has mean 1000 and deviation below 29.
    std::array<std::array<int, 6>, 6> seen{};
    for (std::uint64_t epoch = 0; epoch < 6000; ++epoch) {
        const std::vector<std::int64_t> order = epoch_order(6, 3, epoch, true);
        for (std::size_t place = 0; place < 6; ++place)
            ++seen[place][static_cast<std::size_t>(order[place])];
    }
    for (const auto& row : seen) {
        for (const int times : row)
            CHECK(std::abs(times - 1000) < 150);
    }
}

TEST_CASE("streams of the loader do not meet each other or a generator's") {
    CHECK(shuffle_stream(0) == std::uint64_t{1} << 62);
    CHECK(augment_stream(0) == std::uint64_t{1} << 63);
    CHECK(shuffle_stream(1) == shuffle_stream(0) + 1);
    CHECK(augment_stream(7) == augment_stream(0) + 7);
}

TEST_CASE("a count that has no order is refused") {
    CHECK_THROWS_AS(epoch_order(-1, 0, 0, true), ValueError);
    CHECK_THROWS_AS(epoch_order(std::int64_t{1} << 32, 0, 0, true), ValueError);
}

}  // namespace fulcrum::data
