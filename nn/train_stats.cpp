#include "nn/train_stats.h"

#include <limits>

namespace fulcrum::nn {

namespace {

double share(double part, std::int64_t whole) {
    return whole == 0 ? std::numeric_limits<double>::quiet_NaN() : part / static_cast<double>(whole);
}

}  // namespace

double Tally::loss() const {
    return share(loss_sum, images);
}

double Tally::accuracy() const {
    return share(static_cast<double>(correct), images);
}

Tally& Tally::operator+=(const Tally& other) {
    images += other.images;
    correct += other.correct;
    loss_sum += other.loss_sum;
    return *this;
}

TimeSplit& TimeSplit::operator+=(const TimeSplit& other) {
    data += other.data;
    transfer += other.transfer;
    forward += other.forward;
    backward += other.backward;
    optimizer += other.optimizer;
    return *this;
}

double EpochStats::images_per_second() const {
    const double seconds = time.total();
    return seconds > 0.0 ? static_cast<double>(train.images) / seconds : 0.0;
}

}  // namespace fulcrum::nn
