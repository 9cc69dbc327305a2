#include "data/loader.h"

#include "core/backend.h"
#include "core/error.h"
#include "core/threads.h"
#include "data/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <span>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace fulcrum::data {

namespace {

constexpr int kMostWorkers = 256, kMostPrefetch = 4096;

void check_range(const char* option, std::int64_t value, std::int64_t low, std::int64_t high) {
    if (value < low || value > high) {
        throw ValueError(fmt::format("loader: {} is {}; it must be {}..{}", option, value, low, high));
    }
}

void check_options(const LoaderOptions& options) {
    check_range("batch_size", options.batch_size, 1, std::int64_t{1} << 31);
    check_range("workers", options.workers, 0, kMostWorkers);
    check_range("prefetch", options.prefetch, 1, kMostPrefetch);
    check_range("crop_padding", options.augment.crop_padding, 0, kImageSide);
    check_range("cutout", options.augment.cutout, 0, 2 * kImageSide);
    if (options.dtype != DType::f32 && options.dtype != DType::bf16) {
        throw DTypeError(fmt::format("loader: dtype is {}; it must be f32 or bf16", name_of(options.dtype)));
    }
    runtime(options.device);
}

}  // namespace

class DataLoader::Impl {
  public:
    Impl(ImageDataset dataset, LoaderOptions options)
        : dataset_(std::move(dataset)), options_(std::move(options)) {
        check_options(options_);
        dataset_.check();
        table_ = make_normalization_table(options_.normalization.mean, options_.normalization.std);
        labels_ = dataset_.labels.to_vector<std::int64_t>();
        const std::int64_t whole = dataset_.count() / options_.batch_size;
        const bool part = dataset_.count() % options_.batch_size != 0 && !options_.drop_last;
        size_ = whole + (part ? 1 : 0);
        if (dataset_.images.device().type != DeviceType::cpu) return;
        slots_.resize(options_.workers > 0 ? static_cast<std::size_t>(options_.prefetch) : 0);
        try {
            for (int i = 0; i < options_.workers; ++i) {
                workers_.emplace_back([this](const std::stop_token& stop) { work(stop); });
            }
        } catch (const std::system_error&) {
            // The system gives no more threads: the workers that run prepare everything, or next() does.
        }
    }

    std::optional<Batch> next() {
        const auto start = std::chrono::steady_clock::now();
        std::optional<Batch> batch;
        if (position_.batch == size_) {
            seek({position_.epoch + 1, 0});
        } else {
            if (!order_ || order_epoch_ != position_.epoch) start_epoch();
            batch = workers_.empty() ? make_batch({*order_, position_}) : take();
            batch->images = batch->images.to(options_.device);
            batch->labels = batch->labels.to(options_.device);
            advance();
        }
        seconds_waiting_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        return batch;
    }

    /// Moves the position; whatever the workers have prepared or are preparing is forgotten.
    void seek(LoaderPosition position) {
        std::vector<Slot> forgotten(slots_.size());
        const std::scoped_lock lock(mutex_);
        position_ = position;
        running_ = false;
        ++generation_;
        slots_.swap(forgotten);
    }

    std::int64_t size() const { return size_; }
    std::int64_t images_per_epoch() const {
        return options_.drop_last ? size_ * options_.batch_size : dataset_.count();
    }
    LoaderPosition position() const { return position_; }
    double seconds_waiting() const { return seconds_waiting_; }
    const ImageDataset& dataset() const { return dataset_; }
    const LoaderOptions& options() const { return options_; }

  private:
    using Order = std::vector<std::int64_t>;

    /// A batch to make.
    struct Task {
        const Order& order;
        LoaderPosition position;
    };

    /// A batch that waits to be taken, or the reason why there is none.
    struct Slot {
        std::optional<Batch> batch;
        std::exception_ptr failure;
    };

    void start_epoch() {
        order_ = std::make_shared<const Order>(
            epoch_order(dataset_.count(), options_.seed, position_.epoch, options_.shuffle));
        order_epoch_ = position_.epoch;
    }

    Slot& slot(std::int64_t batch) { return slots_[static_cast<std::size_t>(batch) % slots_.size()]; }

    Batch make_batch(const Task& task) const {
        const std::int64_t begin = task.position.batch * options_.batch_size;
        const std::int64_t count = std::min(options_.batch_size, dataset_.count() - begin);
        const std::span places(task.order.data() + begin, static_cast<std::size_t>(count));
        std::vector<std::int64_t> labels;
        labels.reserve(places.size());
        for (const std::int64_t place : places)
            labels.push_back(labels_[static_cast<std::size_t>(place)]);

        AugmentParams params = options_.augment;
        params.seed = options_.seed;
        params.stream = augment_stream(task.position.epoch);
        const TensorOptions here{.dtype = DType::i64, .device = dataset_.images.device()};
        const Tensor indices = from_data<std::int64_t>(places, {count}, here);
        Batch batch{.images = augment(dataset_.images, indices, table_, params, options_.dtype),
                    .labels = from_data<std::int64_t>(labels, {count}, here),
                    .count = count};
        if (options_.transform) options_.transform(batch);
        return batch;
    }

    /// Waits for the batch at the position.
    std::optional<Batch> take() {
        Slot taken;
        {
            std::unique_lock lock(mutex_);
            if (!running_) {
                running_ = true;
                claimed_ = position_.batch;
                work_.notify_all();
            }
            Slot& here = slot(position_.batch);
            ready_.wait(lock, [&] { return here.batch || here.failure; });
            taken = std::exchange(here, {});
        }
        if (taken.failure) {
            seek(position_);
            std::rethrow_exception(taken.failure);
        }
        return std::move(taken.batch);
    }

    void advance() {
        {
            const std::scoped_lock lock(mutex_);
            ++position_.batch;
        }
        work_.notify_one();
    }

    /// True when there is a batch to claim: in this epoch, and with a free slot.
    bool has_work() const {
        return running_ && claimed_ < std::min(size_, position_.batch + std::int64_t{options_.prefetch});
    }

    void work(const std::stop_token& stop) {
        const ThreadLimitGuard alone(1);
        std::unique_lock lock(mutex_);
        while (work_.wait(lock, stop, [this] { return has_work(); })) {
            const std::uint64_t generation = generation_;
            const std::shared_ptr<const Order> order = order_;
            const LoaderPosition mine{position_.epoch, claimed_++};
            lock.unlock();
            Slot made;
            try {
                made.batch = make_batch({*order, mine});
            } catch (...) {
                made.failure = std::current_exception();
            }
            lock.lock();
            if (generation != generation_) continue;
            slot(mine.batch) = std::move(made);
            ready_.notify_one();
        }
    }

    ImageDataset dataset_;
    LoaderOptions options_;
    NormalizationTable table_{};
    std::vector<std::int64_t> labels_;
    std::int64_t size_ = 0;
    double seconds_waiting_ = 0.0;

    // The consumer alone writes what follows, the position under the lock; workers read it under the lock.
    LoaderPosition position_;
    std::shared_ptr<const Order> order_;
    std::uint64_t order_epoch_ = 0;

    std::mutex mutex_;
    std::condition_variable_any work_;   ///< a batch can be claimed
    std::condition_variable_any ready_;  ///< a slot was filled
    bool running_ = false;               ///< workers may claim batches of this epoch
    std::int64_t claimed_ = 0;           ///< the next batch that no worker has
    std::uint64_t generation_ = 0;       ///< grows with every seek; what was claimed before is thrown away
    std::vector<Slot> slots_;

    std::vector<std::jthread> workers_;  ///< last: stopped and joined before anything else goes
};

DataLoader::DataLoader(ImageDataset dataset, LoaderOptions options)
    : impl_(std::make_unique<Impl>(std::move(dataset), std::move(options))) {}
DataLoader::~DataLoader() = default;
DataLoader::DataLoader(DataLoader&&) noexcept = default;
DataLoader& DataLoader::operator=(DataLoader&&) noexcept = default;

std::optional<Batch> DataLoader::next() {
    return impl_->next();
}

std::int64_t DataLoader::size() const {
    return impl_->size();
}

std::int64_t DataLoader::images_per_epoch() const {
    return impl_->images_per_epoch();
}

LoaderPosition DataLoader::position() const {
    return impl_->position();
}

void DataLoader::set_position(LoaderPosition position) {
    if (position.batch < 0 || position.batch > size()) {
        throw ValueError(fmt::format("loader: position is batch {} of epoch {}; an epoch has {} batches",
                                     position.batch, position.epoch, size()));
    }
    impl_->seek(position);
}

double DataLoader::seconds_waiting() const {
    return impl_->seconds_waiting();
}

const ImageDataset& DataLoader::dataset() const {
    return impl_->dataset();
}

const LoaderOptions& DataLoader::options() const {
    return impl_->options();
}

}  // namespace fulcrum::data
