#pragma once

/// \file
/// DataLoader: a data set as a sequence of normalised, augmented batches, prepared ahead by worker threads.
///
/// What comes out depends on the data set, the options and the position only, never on the number of workers
/// or on timing. One thread uses a loader at a time.

#include "core/ops/augment.h"
#include "data/dataset.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace fulcrum::data {

/// What a training or evaluation step takes.
struct Batch {
    Tensor images;           ///< `[count, 3, 32, 32]`, channels-last, normalised, f32 or bf16
    Tensor labels;           ///< i64 `[count]`, on the images' device
    std::int64_t count = 0;  ///< images in this batch; the last of an epoch may have fewer than the others
};

/// How a `DataLoader` makes batches.
struct LoaderOptions {
    std::int64_t batch_size = 128;
    bool shuffle = false;    ///< visit the images in `epoch_order`, anew each epoch
    bool drop_last = false;  ///< leave out a last batch that is not full
    /// Crop, flip and cutout; `seed` and `stream` in here are ignored: the loader uses its own seed and
    /// `augment_stream(epoch)`.
    AugmentParams augment;
    Normalization normalization;
    DType dtype = DType::f32;  ///< of the images: f32 or bf16
    Device device = kCpu;      ///< where batches are handed out
    std::uint64_t seed = 0;    ///< of the order and of the augmentation
    /// Threads that prepare batches ahead, each using one CPU thread; 0 prepares each batch inside `next()`.
    /// Not used when the data set lives on an accelerator: the batch is then made there, in `next()`.
    int workers = 0;
    int prefetch = 4;  ///< most batches waiting to be taken when there are workers, at least 1
    /// Applied to each finished batch, still on the data set's device and before it moves to `device`; may
    /// replace its tensors. With several workers it is called from all of them at once.
    std::function<void(Batch&)> transform;
};

/// A place in the endless sequence of epochs: the next batch to be handed out. Kept by checkpoints.
struct LoaderPosition {
    std::uint64_t epoch = 0;
    std::int64_t batch = 0;

    friend bool operator==(const LoaderPosition&, const LoaderPosition&) = default;
};

/// Hands out batches epoch by epoch:
/// `while (auto batch = loader.next()) train(batch->images, batch->labels);` runs one epoch.
class DataLoader {
  public:
    /// Starts at epoch 0, batch 0. The data set's tensors are shared and must not be changed meanwhile.
    /// \throws ValueError, ShapeError, DTypeError or DeviceError for options or a data set that make no
    /// sense, naming the option.
    DataLoader(ImageDataset dataset, LoaderOptions options);
    /// Stops the workers; waits for the batches they are working on.
    ~DataLoader();
    DataLoader(DataLoader&&) noexcept;
    DataLoader& operator=(DataLoader&&) noexcept;

    /// The next batch, or nothing at the end of the epoch: the position is then the beginning of the next one
    /// and the following call starts it.
    /// Rethrows what a worker threw while preparing this batch; the position stays and a later call tries
    /// again.
    std::optional<Batch> next();

    /// Batches in every epoch.
    std::int64_t size() const;
    /// Images in every epoch: all of them, or full batches only with `drop_last`.
    std::int64_t images_per_epoch() const;
    /// Where `next()` will read.
    LoaderPosition position() const;
    /// Continues elsewhere: the batches from there on are those that a loader which ran all the way would
    /// give. `batch == size()` is the end of that epoch. \throws ValueError unless `0 <= batch <= size()`.
    void set_position(LoaderPosition position);
    /// Seconds that `next()` has taken in total: waiting for workers, or preparing batches without them.
    double seconds_waiting() const;

    const ImageDataset& dataset() const;
    const LoaderOptions& options() const;

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace fulcrum::data
