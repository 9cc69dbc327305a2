#include "core/ops/batch_norm.h"

#include "kernels/cpu/backend.h"
#include "kernels/cpu/batch_norm_tiles.h"
#include "kernels/cpu/bit_mask.h"
#include "kernels/cpu/convert.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>

// Batch normalisation is bound by memory, so each direction reads its operands twice and no more: once for
// the per-channel sums and once to write. The [rows, C] matrix is cut into tiles by its shape alone; each
// tile's sums are taken in the element's arithmetic and put together in double, in the tiles' order. The
// results are therefore the same bits for any number of threads.

namespace fulcrum::cpu {
namespace {

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
        for_each_lane<T>(channels, [&](std::int64_t first, std::int64_t lane) {
            shift[first + lane] += static_cast<C>(row[first + lane]);
        });
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
        for_each_lane<T>(channels, [&](std::int64_t first, std::int64_t lane) {
            const std::int64_t c = first + lane;
            const C d0 = static_cast<C>(row0[c]) - shift[c];
            const C d1 = static_cast<C>(row1[c]) - shift[c];
            const C d2 = static_cast<C>(row2[c]) - shift[c];
            const C d3 = static_cast<C>(row3[c]) - shift[c];
            sum[c] += (d0 + d1) + (d2 + d3);
            squares[c] += (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3);
        });
    }
    for (; r < rows; ++r) {
        const T* row = x + r * stride;
        for_each_lane<T>(channels, [&](std::int64_t first, std::int64_t lane) {
            const std::int64_t c = first + lane;
            const C d = static_cast<C>(row[c]) - shift[c];
            sum[c] += d;
            squares[c] += d * d;
        });
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

/// `output = act((x - center) * scale + offset + residual)`.
template <class T, bool kRelu, bool kResidual>
void write_rows(const T* x, const T* residual, const Coefficients<Arithmetic<T>>& coefficients,
                std::int64_t channels, std::int64_t begin, std::int64_t end, RowWriter<T>& output,
                MaskUnit* mask) {
    using C = Arithmetic<T>;
    const C* center = coefficients[0];
    const C* scale = coefficients[1];
    const C* offset = coefficients[2];
    for (std::int64_t r = begin; r < end; ++r) {
        const std::int64_t start = r * channels;
        T* to = output.begin(r);
        for_each_lane<T>(channels, [&](std::int64_t first, std::int64_t lane) {
            const std::int64_t c = first + lane;
            C y = (static_cast<C>(x[start + c]) - center[c]) * scale[c] + offset[c];
            if constexpr (kResidual) y += static_cast<C>(residual[start + c]);
            // Written so that NaN passes through.
            if constexpr (kRelu) y = y < C{0} ? C{0} : y;
            to[c] = static_cast<T>(y);
        });
        if (mask != nullptr) pack_nonzero(to, channels, mask + start / kMaskUnit);
        output.end(r);
    }
}

template <class T>
void write_output(const Tiling& tiling, const BatchNormParams& params, const Tensor& x,
                  const Tensor& residual, const Coefficients<Arithmetic<T>>& coefficients, Tensor& output,
                  MaskUnit* mask) {
    const T* from = x.data<T>();
    const T* added = data_or_null<const T>(residual);
    T* to = output.data<T>();
    for_each_row_range(tiling, [&](std::int64_t begin, std::int64_t end) {
        const auto write =
            params.relu ? (added != nullptr ? write_rows<T, true, true> : write_rows<T, true, false>)
                        : (added != nullptr ? write_rows<T, false, true> : write_rows<T, false, false>);
        RowWriter<T> writer(to, tiling);
        write(from, added, coefficients, tiling.channels, begin, end, writer, mask);
    });
}

/// Where the forward's ReLU let values pass; the context that it hands to the backward.
struct ReluMask {
    Tensor memory;

    MaskUnit* units() const { return static_cast<MaskUnit*>(memory.raw_data()); }
};

/// A mask for a ReLU on `x`; null where there is none and where rows do not fill whole units.
std::shared_ptr<ReluMask> make_mask(const BatchNormParams& params, const Tensor& x) {
    if (!params.relu || x.size(1) % kMaskUnit != 0) return nullptr;
    return std::make_shared<ReluMask>(ReluMask{empty({x.numel() / 8}, {.dtype = DType::u8})});
}

template <class T>
void forward_train_as(const BatchNormParams& params, const Tensor& x, const Tensor& weight,
                      const Tensor& bias, const Tensor& residual, Tensor& running_mean, Tensor& running_var,
                      Tensor& output, Tensor& saved_mean, Tensor& saved_inv_std, MaskUnit* mask) {
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
    write_output<T>(tiling, params, x, residual, coefficients, output, mask);
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
    write_output<T>(tiling, params, x, residual, coefficients, output, nullptr);
}

/// What tells where the ReLU let values pass.
enum class Masking : std::uint8_t { none, output, bits };

/// The gradient behind the ReLU.
template <class T, Masking kMasking>
struct Upstream {
    const T* grad;
    const T* output;
    const MaskUnit* mask;

    /// Of element `start + lane`; with bits, both lie in one unit.
    Arithmetic<T> at(std::int64_t start, std::int64_t lane) const {
        using C = Arithmetic<T>;
        const C value = static_cast<C>(grad[start + lane]);
        if constexpr (kMasking == Masking::none) {
            return value;
        } else if constexpr (kMasking == Masking::output) {
            // Written so that the gradient of a NaN output passes, as in `relu`.
            return static_cast<C>(output[start + lane]) <= C{0} ? C{0} : value;
        } else {
            return keep_marked(mask[start / kMaskUnit], start % kMaskUnit + lane, value);
        }
    }
};

/// Sums of `g` and of `g * (x - mean)` of each column, where `g` is the gradient behind the ReLU.
/// \param start the tile's first element.
template <class T, Masking kMasking>
void tile_gradient_sums(const Upstream<T, kMasking>& upstream, const T* x, const Arithmetic<T>* mean,
                        std::int64_t start, std::int64_t stride, std::int64_t rows, std::int64_t channels,
                        double* gradients, double* products) {
    using C = Arithmetic<T>;
    std::array<C, kMaxTileChannels> sum;
    std::array<C, kMaxTileChannels> product;
    std::fill_n(sum.begin(), channels, C{0});
    std::fill_n(product.begin(), channels, C{0});
    std::int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
        const std::int64_t row0 = start + r * stride;
        const std::int64_t row1 = row0 + stride;
        const std::int64_t row2 = row1 + stride;
        const std::int64_t row3 = row2 + stride;
        for_each_lane<T>(channels, [&](std::int64_t first, std::int64_t lane) {
            const std::int64_t c = first + lane;
            const C g0 = upstream.at(row0 + first, lane);
            const C g1 = upstream.at(row1 + first, lane);
            const C g2 = upstream.at(row2 + first, lane);
            const C g3 = upstream.at(row3 + first, lane);
            sum[c] += (g0 + g1) + (g2 + g3);
            product[c] +=
                (g0 * (static_cast<C>(x[row0 + c]) - mean[c]) +
                 g1 * (static_cast<C>(x[row1 + c]) - mean[c])) +
                (g2 * (static_cast<C>(x[row2 + c]) - mean[c]) + g3 * (static_cast<C>(x[row3 + c]) - mean[c]));
        });
    }
    for (; r < rows; ++r) {
        const std::int64_t row = start + r * stride;
        for_each_lane<T>(channels, [&](std::int64_t first, std::int64_t lane) {
            const std::int64_t c = first + lane;
            const C g = upstream.at(row + first, lane);
            sum[c] += g;
            product[c] += g * (static_cast<C>(x[row + c]) - mean[c]);
        });
    }
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c) {
        gradients[c] = sum[c];
        products[c] = product[c];
    }
}

/// `grad_x = ((g - average) - (x - center) * slope) * scale` and `grad_residual = g`; the differences come
/// first because they may cancel.
template <class T, Masking kMasking, bool kX, bool kResidual>
void write_gradient_rows(const Upstream<T, kMasking>& upstream, const T* x,
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
        for_each_lane<T>(channels, [&](std::int64_t first, std::int64_t lane) {
            const std::int64_t c = first + lane;
            const C g = upstream.at(start + first, lane);
            if constexpr (kX) {
                const C distance = static_cast<C>(x[start + c]) - center[c];
                to[c] = static_cast<T>(((g - average[c]) - distance * slope[c]) * scale[c]);
            }
            if constexpr (kResidual) to_residual[c] = static_cast<T>(g);
        });
        if constexpr (kX) grad_x.end(r);
        if constexpr (kResidual) grad_residual.end(r);
    }
}

/// The gradients of the parameters, and what `write_gradient_rows` needs to know of whole columns.
template <class T, Masking kMasking>
void reduce_gradients(const Tiling& tiling, const Upstream<T, kMasking>& upstream, const T* x,
                      const Tensor& mean, const Tensor& inv_std, bool statistics_depend, Tensor& grad_weight,
                      Tensor& grad_bias, const Coefficients<Arithmetic<T>>& coefficients) {
    using C = Arithmetic<T>;
    const C* means = mean.data<C>();
    const C* inv_stds = inv_std.data<C>();
    C* weight_out = data_or_null<C>(grad_weight);
    C* bias_out = data_or_null<C>(grad_bias);
    const TileSums sums(tiling);
    for_each_tile(tiling, [&](std::int64_t tile, std::int64_t row, std::int64_t row_end, std::int64_t channel,
                              std::int64_t channel_end) {
        tile_gradient_sums(upstream, x, means + channel, row * tiling.channels + channel, tiling.channels,
                           row_end - row, channel_end - channel, sums.first(tile) + channel,
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

template <class T, Masking kMasking>
void backward_as(const BatchNormParams& params, const MaskUnit* mask, const Tensor& grad_output,
                 const Tensor& x, const Tensor& output, const Tensor& weight, const Tensor& mean,
                 const Tensor& inv_std, Tensor& grad_x, Tensor& grad_weight, Tensor& grad_bias,
                 Tensor& grad_residual) {
    using C = Arithmetic<T>;
    const Tiling tiling = make_tiling(x);
    const Upstream<T, kMasking> upstream{grad_output.data<T>(),
                                         kMasking == Masking::output ? output.data<T>() : nullptr, mask};
    const T* from = x.data<T>();
    const C* means = mean.data<C>();
    const C* inv_stds = inv_std.data<C>();
    const C* gamma = data_or_null<const C>(weight);

    const Coefficients<C> coefficients(4, tiling.channels);
    for (std::int64_t c = 0; c < tiling.channels; ++c) {
        coefficients[0][c] = means[c];
        coefficients[1][c] = C{0};
        coefficients[2][c] = C{0};
        coefficients[3][c] = static_cast<C>(static_cast<double>(inv_stds[c]) *
                                            (gamma != nullptr ? static_cast<double>(gamma[c]) : 1.0));
    }
    const bool statistics_depend = params.training && grad_x.defined();
    if (statistics_depend || grad_weight.defined() || grad_bias.defined()) {
        reduce_gradients(tiling, upstream, from, mean, inv_std, statistics_depend, grad_weight, grad_bias,
                         coefficients);
    }
    T* x_out = data_or_null<T>(grad_x);
    T* residual_out = data_or_null<T>(grad_residual);
    if (x_out == nullptr && residual_out == nullptr) return;
    for_each_row_range(tiling, [&](std::int64_t begin, std::int64_t end) {
        const auto write = x_out == nullptr          ? write_gradient_rows<T, kMasking, false, true>
                           : residual_out == nullptr ? write_gradient_rows<T, kMasking, true, false>
                                                     : write_gradient_rows<T, kMasking, true, true>;
        RowWriter<T> x_writer(x_out, tiling);
        RowWriter<T> residual_writer(residual_out, tiling);
        write(upstream, from, coefficients, tiling.channels, begin, end, x_writer, residual_writer);
    });
}

KernelContext forward_train(const BatchNormParams& params, const Tensor& x, const Tensor& weight,
                            const Tensor& bias, const Tensor& residual, Tensor& running_mean,
                            Tensor& running_var, Tensor& output, Tensor& saved_mean, Tensor& saved_inv_std) {
    std::shared_ptr<ReluMask> mask = make_mask(params, x);
    visit_floating(x.dtype(), BatchNormKernels::family, [&](auto tag) {
        forward_train_as<typename decltype(tag)::type>(params, x, weight, bias, residual, running_mean,
                                                       running_var, output, saved_mean, saved_inv_std,
                                                       mask != nullptr ? mask->units() : nullptr);
    });
    return mask;
}

void forward_eval(const BatchNormParams& params, const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Tensor& residual, const Tensor& running_mean, const Tensor& running_var,
                  Tensor& output, Tensor& saved_inv_std) {
    visit_floating(x.dtype(), BatchNormKernels::family, [&](auto tag) {
        forward_eval_as<typename decltype(tag)::type>(params, x, weight, bias, residual, running_mean,
                                                      running_var, output, saved_inv_std);
    });
}

void backward(const BatchNormParams& params, const KernelContext& context, const Tensor& grad_output,
              const Tensor& x, const Tensor& output, const Tensor& weight, const Tensor& mean,
              const Tensor& inv_std, Tensor& grad_x, Tensor& grad_weight, Tensor& grad_bias,
              Tensor& grad_residual) {
    const MaskUnit* mask =
        context != nullptr ? static_cast<const ReluMask*>(context.get())->units() : nullptr;
    visit_floating(x.dtype(), BatchNormKernels::family, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto run = !params.relu      ? backward_as<T, Masking::none>
                         : mask == nullptr ? backward_as<T, Masking::output>
                                           : backward_as<T, Masking::bits>;
        run(params, mask, grad_output, x, output, weight, mean, inv_std, grad_x, grad_weight, grad_bias,
            grad_residual);
    });
}

}  // namespace

const BatchNormKernels& batch_norm_kernels() {
    static constexpr BatchNormKernels kernels{forward_train, forward_eval, backward};
    return kernels;
}

}  // namespace fulcrum::cpu
