#include "core/ops/batch_norm.h"

#include "kernels/cpu/backend.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/stream.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

// Batch normalisation is bound by memory, so each direction reads its operands twice and no more: once for
// the per-channel sums and once to write. The [rows, C] matrix is cut into tiles by its shape alone; each
// tile's sums are taken in the element's arithmetic and put together in double, in the tiles' order. The
// results are therefore the same bits for any number of threads.

namespace fulcrum::cpu {
namespace {

/// The widest tile, so that per-channel sums fit on the stack.
constexpr std::int64_t kMaxTileChannels = 1024;
/// Elements that are worth a thread.
constexpr std::int64_t kGrain = 16384;
/// Results of this size are not found in a cache by whoever reads them next.
constexpr std::int64_t kStreamedBytes = std::int64_t{16} << 20;

/// How the matrix is cut for the passes that sum over rows.
struct Tiling {
    std::int64_t rows, channels;
    std::int64_t row_tiles, channel_tiles;

    std::int64_t tiles() const { return row_tiles * channel_tiles; }
    std::int64_t row(std::int64_t tile) const { return part_begin(rows, row_tiles, tile); }
    std::int64_t channel(std::int64_t tile) const { return part_begin(channels, channel_tiles, tile); }
};

Tiling make_tiling(const Tensor& x) {
    const std::int64_t channels = x.size(1);
    const std::int64_t rows = x.numel() / channels;
    const std::int64_t tile_rows = std::clamp<std::int64_t>(16384 / channels, 64, 512);
    const std::int64_t row_tiles = (rows + tile_rows - 1) / tile_rows;
    // Few rows (the last stages of a network on small images) leave the channels to spread over the threads.
    const std::int64_t tile_channels = row_tiles < 32 ? 128 : kMaxTileChannels;
    return {rows, channels, row_tiles, (channels + tile_channels - 1) / tile_channels};
}

/// Calls `body(row_tile, row_begin, row_end, channel_begin, channel_end)` for every tile.
template <class Body>
void for_each_tile(const Tiling& tiling, const Body& body) {
    const std::int64_t elements = tiling.rows * tiling.channels;
    const std::int64_t grain = std::max<std::int64_t>(1, kGrain * tiling.tiles() / elements);
    parallel_for(tiling.tiles(), grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t tile = begin; tile < end; ++tile) {
            const std::int64_t i = tile / tiling.channel_tiles;
            const std::int64_t j = tile % tiling.channel_tiles;
            body(i, tiling.row(i), tiling.row(i + 1), tiling.channel(j), tiling.channel(j + 1));
        }
    });
}

/// Calls `body(begin, end)` on ranges of rows, each thread's last one first: those are the ones that the pass
/// before has left in the cache.
template <class Body>
void for_each_row_range(const Tiling& tiling, const Body& body) {
    const std::int64_t block = std::max<std::int64_t>(1, kGrain / tiling.channels);
    parallel_for(tiling.rows, block, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t last = end; last > begin; last -= block)
            body(std::max(begin, last - block), last);
        stream_fence();
    });
}

/// A writer of rows of up to `kMaxTileChannels` elements. Large tensors are streamed past the caches: a row
/// is put together in a buffer and then copied as a whole.
template <class T>
class RowWriter {
  public:
    /// `data` null when the tensor is not wanted.
    RowWriter(T* data, const Tiling& tiling)
        : data_(data),
          channels_(tiling.channels),
          streams_(tiling.rows * tiling.channels * static_cast<std::int64_t>(sizeof(T)) >= kStreamedBytes &&
                   channels_ <= kMaxTileChannels && can_stream(data, row_bytes())) {}

    /// Where row `r` is to be put together.
    T* begin(std::int64_t r) { return streams_ ? buffer_.data() : data_ + r * channels_; }
    /// Row `r` is complete.
    void end(std::int64_t r) {
        if (streams_) stream_copy(data_ + r * channels_, buffer_.data(), row_bytes());
    }

  private:
    std::size_t row_bytes() const { return static_cast<std::size_t>(channels_) * sizeof(T); }

    T* data_;
    std::int64_t channels_;
    bool streams_;
    alignas(kStreamUnit) std::array<T, kMaxTileChannels> buffer_;
};

/// Two double sums per channel and row tile, laid out `[row_tiles][2][C]`.
class TileSums {
  public:
    explicit TileSums(const Tiling& tiling)
        : channels_(tiling.channels),
          memory_(empty({tiling.row_tiles, 2, tiling.channels}, {.dtype = DType::f64})),
          data_(memory_.data<double>()) {}

    double* first(std::int64_t tile) const { return data_ + 2 * tile * channels_; }
    double* second(std::int64_t tile) const { return first(tile) + channels_; }

  private:
    std::int64_t channels_;
    Tensor memory_;
    double* data_;
};

/// Per-channel coefficients of a pass, `count` arrays of `[C]`.
template <class C>
class Coefficients {
  public:
    Coefficients(std::int64_t count, std::int64_t channels)
        : channels_(channels), memory_(empty({count, channels}, {.dtype = dtype_of<C>()})) {}

    C* operator[](std::int64_t i) const { return memory_.data<C>() + i * channels_; }

  private:
    std::int64_t channels_;
    Tensor memory_;
};

/// A per-channel tensor as a pointer, null when undefined.
template <class C>
C* data_or_null(const Tensor& tensor) {
    return tensor.defined() ? tensor.data<C>() : nullptr;
}

/// Mean and sum of squared deviations of each column. Sums are taken around the mean of eight rows spread
/// over the tile: with that share of the values behind the centre, cancellation costs no more than a few
/// bits, and one pass suffices.
template <class T>
void tile_statistics(const T* x, std::int64_t stride, std::int64_t rows, std::int64_t channels, double* mean,
                     double* deviations) {
    using C = Arithmetic<T>;
    std::array<C, kMaxTileChannels> shift;
    std::array<C, kMaxTileChannels> sum;
    std::array<C, kMaxTileChannels> squares;
    const std::int64_t sampled = std::min<std::int64_t>(8, rows);
    std::fill_n(shift.begin(), channels, C{0});
    std::fill_n(sum.begin(), channels, C{0});
    std::fill_n(squares.begin(), channels, C{0});
    for (std::int64_t i = 0; i < sampled; ++i) {
        const T* row = x + part_begin(rows, sampled, i) * stride;
#pragma omp simd
        for (std::int64_t c = 0; c < channels; ++c)
            shift[c] += static_cast<C>(row[c]);
    }
    const C share = C{1} / static_cast<C>(sampled);
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c)
        shift[c] *= share;

    std::int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
        const T* row0 = x + r * stride;
        const T* row1 = row0 + stride;
        const T* row2 = row1 + stride;
        const T* row3 = row2 + stride;
#pragma omp simd
        for (std::int64_t c = 0; c < channels; ++c) {
            const C d0 = static_cast<C>(row0[c]) - shift[c];
            const C d1 = static_cast<C>(row1[c]) - shift[c];
            const C d2 = static_cast<C>(row2[c]) - shift[c];
            const C d3 = static_cast<C>(row3[c]) - shift[c];
            sum[c] += (d0 + d1) + (d2 + d3);
            squares[c] += (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3);
        }
    }
    for (; r < rows; ++r) {
        const T* row = x + r * stride;
#pragma omp simd
        for (std::int64_t c = 0; c < channels; ++c) {
            const C d = static_cast<C>(row[c]) - shift[c];
            sum[c] += d;
            squares[c] += d * d;
        }
    }
    const double per_row = 1.0 / static_cast<double>(rows);
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c) {
        const double total = sum[c];
        const double rest = static_cast<double>(squares[c]) - total * total * per_row;
        mean[c] = static_cast<double>(shift[c]) + total * per_row;
        deviations[c] = rest < 0.0 ? 0.0 : rest;
    }
}

/// Channels whose tile sums are put together at a time.
constexpr std::int64_t kMergeChannels = 64;
/// One double per channel of such a group.
using ChannelGroup = std::array<double, kMergeChannels>;

/// Calls `body(begin, end)` on groups of at most `kMergeChannels` channels.
template <class Body>
void for_each_channel_group(const Tiling& tiling, const Body& body) {
    const std::int64_t groups = (tiling.channels + kMergeChannels - 1) / kMergeChannels;
    const std::int64_t grain = std::max<std::int64_t>(1, kGrain / (tiling.row_tiles * kMergeChannels));
    parallel_for(groups, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t group = begin; group < end; ++group) {
            const std::int64_t channel = group * kMergeChannels;
            body(channel, std::min(channel + kMergeChannels, tiling.channels));
        }
    });
}

/// Mean and deviations of whole columns from those of the tiles (Chan, Golub and LeVeque, 1983).
void merge_statistics(const Tiling& tiling, const TileSums& sums, std::int64_t begin, std::int64_t end,
                      ChannelGroup& mean, ChannelGroup& deviations) {
    const std::int64_t channels = end - begin;
    mean.fill(0.0);
    deviations.fill(0.0);
    for (std::int64_t i = 0; i < tiling.row_tiles; ++i) {
        const double rows = static_cast<double>(tiling.row(i + 1) - tiling.row(i));
        const double share = rows / static_cast<double>(tiling.rows);
        const double* tile_mean = sums.first(i) + begin;
#pragma omp simd
        for (std::int64_t c = 0; c < channels; ++c)
            mean[c] += tile_mean[c] * share;
    }
    for (std::int64_t i = 0; i < tiling.row_tiles; ++i) {
        const double rows = static_cast<double>(tiling.row(i + 1) - tiling.row(i));
        const double* tile_mean = sums.first(i) + begin;
        const double* tile_deviations = sums.second(i) + begin;
#pragma omp simd
        for (std::int64_t c = 0; c < channels; ++c) {
            const double distance = tile_mean[c] - mean[c];
            deviations[c] += tile_deviations[c] + distance * distance * rows;
        }
    }
}

/// Sums of whole columns from those of the tiles.
void merge_sums(const Tiling& tiling, const TileSums& sums, std::int64_t begin, std::int64_t end,
                ChannelGroup& first, ChannelGroup& second) {
    const std::int64_t channels = end - begin;
    first.fill(0.0);
    second.fill(0.0);
    for (std::int64_t i = 0; i < tiling.row_tiles; ++i) {
        const double* tile_first = sums.first(i) + begin;
        const double* tile_second = sums.second(i) + begin;
#pragma omp simd
        for (std::int64_t c = 0; c < channels; ++c) {
            first[c] += tile_first[c];
            second[c] += tile_second[c];
        }
    }
}

/// `output = act((x - center) * scale + offset + residual)`.
template <class T, bool kRelu, bool kResidual>
void write_rows(const T* x, const T* residual, const Coefficients<Arithmetic<T>>& coefficients,
                std::int64_t channels, std::int64_t begin, std::int64_t end, RowWriter<T>& output) {
    using C = Arithmetic<T>;
    const C* center = coefficients[0];
    const C* scale = coefficients[1];
    const C* offset = coefficients[2];
    for (std::int64_t r = begin; r < end; ++r) {
        const std::int64_t start = r * channels;
        T* to = output.begin(r);
#pragma omp simd
        for (std::int64_t c = 0; c < channels; ++c) {
            C y = (static_cast<C>(x[start + c]) - center[c]) * scale[c] + offset[c];
            if constexpr (kResidual) y += static_cast<C>(residual[start + c]);
            // Written so that NaN passes through.
            if constexpr (kRelu) y = y < C{0} ? C{0} : y;
            to[c] = static_cast<T>(y);
        }
        output.end(r);
    }
}

template <class T>
void write_output(const Tiling& tiling, const BatchNormParams& params, const Tensor& x,
                  const Tensor& residual, const Coefficients<Arithmetic<T>>& coefficients, Tensor& output) {
    const T* from = x.data<T>();
    const T* added = data_or_null<const T>(residual);
    T* to = output.data<T>();
    for_each_row_range(tiling, [&](std::int64_t begin, std::int64_t end) {
        const auto write =
            params.relu ? (added != nullptr ? write_rows<T, true, true> : write_rows<T, true, false>)
                        : (added != nullptr ? write_rows<T, false, true> : write_rows<T, false, false>);
        RowWriter<T> writer(to, tiling);
        write(from, added, coefficients, tiling.channels, begin, end, writer);
    });
}

template <class T>
void forward_train_as(const BatchNormParams& params, const Tensor& x, const Tensor& weight,
                      const Tensor& bias, const Tensor& residual, Tensor& running_mean, Tensor& running_var,
                      Tensor& output, Tensor& saved_mean, Tensor& saved_inv_std) {
    using C = Arithmetic<T>;
    const Tiling tiling = make_tiling(x);
    const TileSums sums(tiling);
    const T* from = x.data<T>();
    for_each_tile(tiling, [&](std::int64_t tile, std::int64_t row, std::int64_t row_end, std::int64_t channel,
                              std::int64_t channel_end) {
        tile_statistics(from + row * tiling.channels + channel, tiling.channels, row_end - row,
                        channel_end - channel, sums.first(tile) + channel, sums.second(tile) + channel);
    });

    const Coefficients<C> coefficients(3, tiling.channels);
    const C* gamma = data_or_null<const C>(weight);
    const C* beta = data_or_null<const C>(bias);
    C* moving_mean = data_or_null<C>(running_mean);
    C* moving_var = data_or_null<C>(running_var);
    C* mean_out = saved_mean.data<C>();
    C* inv_std_out = saved_inv_std.data<C>();
    const double count = static_cast<double>(tiling.rows);
    for_each_channel_group(tiling, [&](std::int64_t begin, std::int64_t end) {
        ChannelGroup mean;
        ChannelGroup deviations;
        merge_statistics(tiling, sums, begin, end, mean, deviations);
        for (std::int64_t c = begin; c < end; ++c) {
            const double exact_mean = mean[c - begin];
            const double inv_std = 1.0 / std::sqrt(deviations[c - begin] / count + params.eps);
            const double scale = inv_std * (gamma != nullptr ? static_cast<double>(gamma[c]) : 1.0);
            mean_out[c] = static_cast<C>(exact_mean);
            inv_std_out[c] = static_cast<C>(inv_std);
            // What rounding cuts off the mean goes into the offset: it matters when the mean is large.
            const double lost = exact_mean - static_cast<double>(mean_out[c]);
            coefficients[0][c] = mean_out[c];
            coefficients[1][c] = static_cast<C>(scale);
            coefficients[2][c] =
                static_cast<C>((beta != nullptr ? static_cast<double>(beta[c]) : 0.0) - lost * scale);
            if (moving_mean != nullptr) {
                const double unbiased = deviations[c - begin] / (count - 1.0);
                moving_mean[c] =
                    static_cast<C>((1.0 - params.momentum) * static_cast<double>(moving_mean[c]) +
                                   params.momentum * exact_mean);
                moving_var[c] = static_cast<C>((1.0 - params.momentum) * static_cast<double>(moving_var[c]) +
                                               params.momentum * unbiased);
            }
        }
    });
    write_output<T>(tiling, params, x, residual, coefficients, output);
}

template <class T>
void forward_eval_as(const BatchNormParams& params, const Tensor& x, const Tensor& weight, const Tensor& bias,
                     const Tensor& residual, const Tensor& running_mean, const Tensor& running_var,
                     Tensor& output, Tensor& saved_inv_std) {
    using C = Arithmetic<T>;
    const Tiling tiling = make_tiling(x);
    const Coefficients<C> coefficients(3, tiling.channels);
    const C* gamma = data_or_null<const C>(weight);
    const C* beta = data_or_null<const C>(bias);
    const C* mean = running_mean.data<C>();
    const C* variance = running_var.data<C>();
    C* inv_std_out = data_or_null<C>(saved_inv_std);
    for (std::int64_t c = 0; c < tiling.channels; ++c) {
        const double inv_std = 1.0 / std::sqrt(static_cast<double>(variance[c]) + params.eps);
        coefficients[0][c] = mean[c];
        coefficients[1][c] =
            static_cast<C>(inv_std * (gamma != nullptr ? static_cast<double>(gamma[c]) : 1.0));
        coefficients[2][c] = beta != nullptr ? beta[c] : C{0};
        if (inv_std_out != nullptr) inv_std_out[c] = static_cast<C>(inv_std);
    }
    write_output<T>(tiling, params, x, residual, coefficients, output);
}

/// The gradient that passes the ReLU. Written so that the gradient of a NaN output passes, as in `relu`.
template <class T, bool kRelu>
Arithmetic<T> masked(const T* grad, const T* output, std::int64_t i) {
    using C = Arithmetic<T>;
    const C value = static_cast<C>(grad[i]);
    if constexpr (kRelu) return static_cast<C>(output[i]) <= C{0} ? C{0} : value;
    return value;
}

/// Sums of `g` and of `g * (x - mean)` of each column, where `g` is the gradient behind the ReLU.
template <class T, bool kRelu>
void tile_gradient_sums(const T* grad, const T* x, const T* output, const Arithmetic<T>* mean,
                        std::int64_t stride, std::int64_t rows, std::int64_t channels, double* gradients,
                        double* products) {
    using C = Arithmetic<T>;
    std::array<C, kMaxTileChannels> sum;
    std::array<C, kMaxTileChannels> product;
    std::fill_n(sum.begin(), channels, C{0});
    std::fill_n(product.begin(), channels, C{0});
    std::int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
        const std::int64_t i0 = r * stride;
        const std::int64_t i1 = i0 + stride;
        const std::int64_t i2 = i1 + stride;
        const std::int64_t i3 = i2 + stride;
#pragma omp simd
        for (std::int64_t c = 0; c < channels; ++c) {
            const C g0 = masked<T, kRelu>(grad, output, i0 + c);
            const C g1 = masked<T, kRelu>(grad, output, i1 + c);
            const C g2 = masked<T, kRelu>(grad, output, i2 + c);
            const C g3 = masked<T, kRelu>(grad, output, i3 + c);
            sum[c] += (g0 + g1) + (g2 + g3);
            product[c] +=
                (g0 * (static_cast<C>(x[i0 + c]) - mean[c]) + g1 * (static_cast<C>(x[i1 + c]) - mean[c])) +
                (g2 * (static_cast<C>(x[i2 + c]) - mean[c]) + g3 * (static_cast<C>(x[i3 + c]) - mean[c]));
        }
    }
    for (; r < rows; ++r) {
        const std::int64_t i = r * stride;
#pragma omp simd
        for (std::int64_t c = 0; c < channels; ++c) {
            const C g = masked<T, kRelu>(grad, output, i + c);
            sum[c] += g;
            product[c] += g * (static_cast<C>(x[i + c]) - mean[c]);
        }
    }
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c) {
        gradients[c] = sum[c];
        products[c] = product[c];
    }
}

/// `grad_x = ((g - average) - (x - center) * slope) * scale` and `grad_residual = g`; the differences come
/// first because they may cancel.
template <class T, bool kRelu, bool kX, bool kResidual>
void write_gradient_rows(const T* grad, const T* x, const T* output,
                         const Coefficients<Arithmetic<T>>& coefficients, std::int64_t channels,
                         std::int64_t begin, std::int64_t end, RowWriter<T>& grad_x,
                         RowWriter<T>& grad_residual) {
    using C = Arithmetic<T>;
    const C* center = coefficients[0];
    const C* average = coefficients[1];
    const C* slope = coefficients[2];
    const C* scale = coefficients[3];
    for (std::int64_t r = begin; r < end; ++r) {
        const std::int64_t start = r * channels;
        T* to = kX ? grad_x.begin(r) : nullptr;
        T* to_residual = kResidual ? grad_residual.begin(r) : nullptr;
#pragma omp simd
        for (std::int64_t c = 0; c < channels; ++c) {
            const C g = masked<T, kRelu>(grad, output, start + c);
            if constexpr (kX) {
                const C distance = static_cast<C>(x[start + c]) - center[c];
                to[c] = static_cast<T>(((g - average[c]) - distance * slope[c]) * scale[c]);
            }
            if constexpr (kResidual) to_residual[c] = static_cast<T>(g);
        }
        if constexpr (kX) grad_x.end(r);
        if constexpr (kResidual) grad_residual.end(r);
    }
}

template <class T, bool kRelu>
void backward_as(const BatchNormParams& params, const Tensor& grad_output, const Tensor& x,
                 const Tensor& output, const Tensor& weight, const Tensor& mean, const Tensor& inv_std,
                 Tensor& grad_x, Tensor& grad_weight, Tensor& grad_bias, Tensor& grad_residual) {
    using C = Arithmetic<T>;
    const Tiling tiling = make_tiling(x);
    const T* grad = grad_output.data<T>();
    const T* from = x.data<T>();
    const T* out = kRelu ? output.data<T>() : nullptr;
    const C* means = mean.data<C>();
    const C* inv_stds = inv_std.data<C>();
    const C* gamma = data_or_null<const C>(weight);
    C* weight_out = data_or_null<C>(grad_weight);
    C* bias_out = data_or_null<C>(grad_bias);
    const bool statistics_depend = params.training && grad_x.defined();

    const Coefficients<C> coefficients(4, tiling.channels);
    for (std::int64_t c = 0; c < tiling.channels; ++c) {
        coefficients[0][c] = means[c];
        coefficients[1][c] = C{0};
        coefficients[2][c] = C{0};
        coefficients[3][c] = static_cast<C>(static_cast<double>(inv_stds[c]) *
                                            (gamma != nullptr ? static_cast<double>(gamma[c]) : 1.0));
    }
    if (statistics_depend || weight_out != nullptr || bias_out != nullptr) {
        const TileSums sums(tiling);
        for_each_tile(tiling, [&](std::int64_t tile, std::int64_t row, std::int64_t row_end,
                                  std::int64_t channel, std::int64_t channel_end) {
            const std::int64_t start = row * tiling.channels + channel;
            tile_gradient_sums<T, kRelu>(grad + start, from + start, kRelu ? out + start : nullptr,
                                         means + channel, tiling.channels, row_end - row,
                                         channel_end - channel, sums.first(tile) + channel,
                                         sums.second(tile) + channel);
        });
        const double share = 1.0 / static_cast<double>(tiling.rows);
        for_each_channel_group(tiling, [&](std::int64_t begin, std::int64_t end) {
            ChannelGroup gradients;
            ChannelGroup products;
            merge_sums(tiling, sums, begin, end, gradients, products);
            for (std::int64_t c = begin; c < end; ++c) {
                const double gradient = gradients[c - begin];
                const double product = products[c - begin];
                const double inverse = inv_stds[c];
                if (weight_out != nullptr) weight_out[c] = static_cast<C>(product * inverse);
                if (bias_out != nullptr) bias_out[c] = static_cast<C>(gradient);
                if (statistics_depend) {
                    coefficients[1][c] = static_cast<C>(gradient * share);
                    coefficients[2][c] = static_cast<C>(product * share * inverse * inverse);
                }
            }
        });
    }
    if (!grad_x.defined() && !grad_residual.defined()) return;
    T* x_out = data_or_null<T>(grad_x);
    T* residual_out = data_or_null<T>(grad_residual);
    for_each_row_range(tiling, [&](std::int64_t begin, std::int64_t end) {
        const auto write = x_out == nullptr          ? write_gradient_rows<T, kRelu, false, true>
                           : residual_out == nullptr ? write_gradient_rows<T, kRelu, true, false>
                                                     : write_gradient_rows<T, kRelu, true, true>;
        RowWriter<T> x_writer(x_out, tiling);
        RowWriter<T> residual_writer(residual_out, tiling);
        write(grad, from, out, coefficients, tiling.channels, begin, end, x_writer, residual_writer);
    });
}

KernelContext forward_train(const BatchNormParams& params, const Tensor& x, const Tensor& weight,
                            const Tensor& bias, const Tensor& residual, Tensor& running_mean,
                            Tensor& running_var, Tensor& output, Tensor& saved_mean, Tensor& saved_inv_std) {
    visit_floating(x.dtype(), BatchNormKernels::family, [&](auto tag) {
        forward_train_as<typename decltype(tag)::type>(params, x, weight, bias, residual, running_mean,
                                                       running_var, output, saved_mean, saved_inv_std);
    });
    return nullptr;
}

void forward_eval(const BatchNormParams& params, const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Tensor& residual, const Tensor& running_mean, const Tensor& running_var,
                  Tensor& output, Tensor& saved_inv_std) {
    visit_floating(x.dtype(), BatchNormKernels::family, [&](auto tag) {
        forward_eval_as<typename decltype(tag)::type>(params, x, weight, bias, residual, running_mean,
                                                      running_var, output, saved_inv_std);
    });
}

void backward(const BatchNormParams& params, const KernelContext&, const Tensor& grad_output, const Tensor& x,
              const Tensor& output, const Tensor& weight, const Tensor& mean, const Tensor& inv_std,
              Tensor& grad_x, Tensor& grad_weight, Tensor& grad_bias, Tensor& grad_residual) {
    visit_floating(x.dtype(), BatchNormKernels::family, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto run = params.relu ? backward_as<T, true> : backward_as<T, false>;
        run(params, grad_output, x, output, weight, mean, inv_std, grad_x, grad_weight, grad_bias,
            grad_residual);
    });
}

}  // namespace

const BatchNormKernels& batch_norm_kernels() {
    static constexpr BatchNormKernels kernels{forward_train, forward_eval, backward};
    return kernels;
}

}  // namespace fulcrum::cpu
