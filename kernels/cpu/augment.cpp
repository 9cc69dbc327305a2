#include "core/ops/augment.h"

#include "kernels/cpu/backend.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/parallel.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace fulcrum::cpu {
namespace {

/// Images that are worth a thread: a CIFAR image takes a microsecond.
constexpr std::int64_t kGrain = 32;

/// What is done to one image. Rows and columns are the output's.
struct Decisions {
    std::int64_t top, left;  ///< the crop's corner in the padded image
    bool flip;
    std::int64_t row_begin, row_end, column_begin, column_end;  ///< the cutout, clipped to the image
};

Decisions decide(const AugmentParams& params, std::int64_t image, std::int64_t height, std::int64_t width) {
    const auto words = random_words(params.seed, params.stream, static_cast<std::uint64_t>(image));
    const auto offsets = static_cast<std::uint32_t>(2 * params.crop_padding + 1);
    Decisions decisions{};
    decisions.top = words[0] % offsets;
    decisions.left = words[1] % offsets;
    decisions.flip = params.flip && (words[2] & 1U) != 0;
    if (params.cutout > 0) {
        const std::int64_t row = (words[3] >> 16) % height - params.cutout / 2;
        const std::int64_t column = (words[3] & 0xffffU) % width - params.cutout / 2;
        decisions.row_begin = std::max<std::int64_t>(row, 0);
        decisions.row_end = std::min(row + params.cutout, height);
        decisions.column_begin = std::max<std::int64_t>(column, 0);
        decisions.column_end = std::min(column + params.cutout, width);
    }
    return decisions;
}

template <class T>
using Table = std::array<std::array<T, 256>, 3>;

/// Transforms the images of one batch.
template <class T>
class Augmenter {
  public:
    Augmenter(const AugmentParams& params, const NormalizationTable& table, const Tensor& images,
              const Tensor& indices, Tensor& output)
        : params_(params),
          images_(static_cast<const std::uint8_t*>(images.raw_data())),
          indices_(static_cast<const std::int64_t*>(indices.raw_data())),
          output_(static_cast<T*>(output.raw_data())),
          height_(images.size(2)),
          width_(images.size(3)) {
        for (std::size_t c = 0; c < 3; ++c) {
            for (std::size_t v = 0; v < 256; ++v)
                table_[c][v] = convert<T>(table[c][v]);
        }
    }

    /// Images `begin..end` of the batch.
    void run(std::int64_t begin, std::int64_t end) const {
        std::vector<std::uint8_t> row(static_cast<std::size_t>(3 * width_));
        for (std::int64_t n = begin; n < end; ++n) {
            transform(indices_[n], output_ + n * height_ * width_ * 3, row.data());
        }
    }

  private:
    void transform(std::int64_t image, T* output, std::uint8_t* row) const {
        const Decisions decisions = decide(params_, image, height_, width_);
        const std::uint8_t* planes = images_ + image * 3 * height_ * width_;
        for (std::int64_t y = 0; y < height_; ++y) {
            crop_row(planes, decisions, y, row);
            T* target = output + y * width_ * 3;
            look_up_row(row, target);
            if (y >= decisions.row_begin && y < decisions.row_end) {
                std::fill(target + decisions.column_begin * 3, target + decisions.column_end * 3, T(0.0F));
            }
        }
    }

    /// The bytes of output row `y`, three planes one after the other.
    void crop_row(const std::uint8_t* planes, const Decisions& decisions, std::int64_t y,
                  std::uint8_t* row) const {
        const std::int64_t source_y = y + decisions.top - params_.crop_padding;
        const std::int64_t shift = decisions.left - params_.crop_padding;
        // Columns of the output that show the image; the rest shows the padding.
        const std::int64_t begin = std::clamp<std::int64_t>(-shift, 0, width_);
        const std::int64_t end = std::clamp<std::int64_t>(width_ - shift, begin, width_);
        const bool inside = source_y >= 0 && source_y < height_ && begin < end;
        if (!inside || end - begin < width_) std::memset(row, 0, static_cast<std::size_t>(3 * width_));
        for (std::int64_t c = 0; c < 3 && inside; ++c) {
            const std::uint8_t* source = planes + (c * height_ + source_y) * width_ + begin + shift;
            std::uint8_t* target = row + c * width_;
            if (decisions.flip) {
                std::reverse_copy(source, source + (end - begin), target + (width_ - end));
            } else {
                std::copy(source, source + (end - begin), target + begin);
            }
        }
    }

    void look_up_row(const std::uint8_t* row, T* target) const {
        for (std::int64_t x = 0; x < width_; ++x) {
            for (std::int64_t c = 0; c < 3; ++c) {
                target[x * 3 + c] = table_[static_cast<std::size_t>(c)][row[c * width_ + x]];
            }
        }
    }

    const AugmentParams& params_;
    const std::uint8_t* images_;
    const std::int64_t* indices_;
    T* output_;
    std::int64_t height_, width_;
    Table<T> table_;
};

void check_indices(const Tensor& images, const Tensor& indices) {
    const auto* values = static_cast<const std::int64_t*>(indices.raw_data());
    for (std::int64_t n = 0; n < indices.numel(); ++n) {
        if (values[n] >= 0 && values[n] < images.size(0)) continue;
        throw ValueError("augment: index " + std::to_string(values[n]) + " at position " + std::to_string(n) +
                         " is outside the " + std::to_string(images.size(0)) + " images");
    }
}

template <class T>
void apply(const AugmentParams& params, const NormalizationTable& table, const Tensor& images,
           const Tensor& indices, Tensor& output) {
    const Augmenter<T> augmenter(params, table, images, indices, output);
    parallel_for(indices.numel(), kGrain,
                 [&](std::int64_t begin, std::int64_t end) { augmenter.run(begin, end); });
}

void apply(const AugmentParams& params, const NormalizationTable& table, const Tensor& images,
           const Tensor& indices, Tensor& output) {
    check_indices(images, indices);
    if (output.dtype() == DType::bf16) {
        apply<BFloat16>(params, table, images, indices, output);
    } else {
        apply<float>(params, table, images, indices, output);
    }
}

}  // namespace

const AugmentKernels& augment_kernels() {
    static constexpr AugmentKernels kKernels{apply};
    return kKernels;
}

}  // namespace fulcrum::cpu
