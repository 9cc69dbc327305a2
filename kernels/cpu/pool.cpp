#include "core/ops/pool.h"

#include "kernels/cpu/backend.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/parallel.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

namespace fulcrum::cpu {

namespace {

/// Channels that a loop handles at a time: their accumulators stay in registers and the first-level cache.
constexpr std::int64_t kBlock = 64;
/// Elements that are worth a thread.
constexpr std::int64_t kGrain = 16384;

/// The taps `first..last-1` of a window that lie inside the image, along one dimension.
struct Span {
    std::int64_t first, last;
    std::int64_t count() const { return last - first; }
};

/// Taps `t` of `0..kernel-1` with `0 <= start + t * dilation < size`.
Span live_taps(std::int64_t start, std::int64_t kernel, std::int64_t dilation, std::int64_t size) {
    const std::int64_t first = start < 0 ? (-start + dilation - 1) / dilation : 0;
    const std::int64_t last = start < size ? (size - 1 - start) / dilation + 1 : 0;
    return {std::min(first, kernel), std::max(std::min(first, kernel), std::min(last, kernel))};
}

/// Calls `body(n, y, x, pixel)` for each pixel of `[N, C, H, W]`, rows split over the threads.
template <class Body>
void for_each_pixel(const Shape& shape, const Body& body) {
    const std::int64_t height = shape[2];
    const std::int64_t width = shape[3];
    parallel_for(shape[0] * height, std::max<std::int64_t>(1, kGrain / (width * shape[1])),
                 [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t row = begin; row < end; ++row) {
                         for (std::int64_t x = 0; x < width; ++x)
                             body(row / height, row % height, x, row * width + x);
                     }
                 });
}

template <class T>
using Accumulators = std::array<Arithmetic<T>, kBlock>;

template <class T>
void store(const Accumulators<T>& values, std::int64_t count, Arithmetic<T> factor, T* target) {
    for (std::int64_t j = 0; j < count; ++j)
        target[j] = convert<T>(values[static_cast<std::size_t>(j)] * factor);
}

// --- Maximum
// -----------------------------------------------------------------------------------------------------------

/// One element's step of the search: NaN wins over every number, and the first of equals stays.
template <class V>
inline bool beats(V candidate, V best) {
    return !(candidate <= best) && best == best;
}

/// \param positions null when none are wanted.
template <class T, class P>
void max_forward_typed(const Pool2dParams& p, const Tensor& x, Tensor& output, P* positions) {
    using V = Arithmetic<T>;
    const std::int64_t channels = x.size(1);
    const std::int64_t height = x.size(2);
    const std::int64_t width = x.size(3);
    const T* source = x.data<T>();
    T* target = output.data<T>();
    for_each_pixel(output.shape(), [&](std::int64_t n, std::int64_t oy, std::int64_t ox, std::int64_t pixel) {
        const std::int64_t top = oy * p.stride[0] - p.padding[0];
        const std::int64_t left = ox * p.stride[1] - p.padding[1];
        const Span rows = live_taps(top, p.kernel[0], p.dilation[0], height);
        const Span columns = live_taps(left, p.kernel[1], p.dilation[1], width);
        for (std::int64_t begin = 0; begin < channels; begin += kBlock) {
            const std::int64_t count = std::min(kBlock, channels - begin);
            std::array<V, kBlock> best;
            std::array<std::int32_t, kBlock> winner;
            best.fill(-std::numeric_limits<V>::infinity());
            winner.fill(-1);
            for (std::int64_t r = rows.first; r < rows.last; ++r) {
                const T* row = source + ((n * height + top + r * p.dilation[0]) * width) * channels + begin;
                for (std::int64_t c = columns.first; c < columns.last; ++c) {
                    const T* values = row + (left + c * p.dilation[1]) * channels;
                    const auto tap = static_cast<std::int32_t>(r * p.kernel[1] + c);
                    if (r == rows.first && c == columns.first) {
                        for (std::int64_t j = 0; j < count; ++j) {
                            best[static_cast<std::size_t>(j)] = static_cast<V>(values[j]);
                            winner[static_cast<std::size_t>(j)] = tap;
                        }
                        continue;
                    }
                    for (std::int64_t j = 0; j < count; ++j) {
                        const auto at = static_cast<std::size_t>(j);
                        const V value = static_cast<V>(values[j]);
                        const bool take = beats(value, best[at]);
                        best[at] = take ? value : best[at];
                        winner[at] = take ? tap : winner[at];
                    }
                }
            }
            const std::int64_t offset = pixel * channels + begin;
            for (std::int64_t j = 0; j < count; ++j)
                target[offset + j] = convert<T>(best[static_cast<std::size_t>(j)]);
            if (positions == nullptr) continue;
            for (std::int64_t j = 0; j < count; ++j)
                positions[offset + j] = static_cast<P>(winner[static_cast<std::size_t>(j)]);
        }
    });
}

void max_forward(const Pool2dParams& params, const Tensor& x, Tensor& output, Tensor& positions) {
    visit_floating(x.dtype(), "max_pool2d", [&](auto tag) {
        using T = typename decltype(tag)::type;
        if (positions.defined() && positions.dtype() == DType::i32) {
            max_forward_typed<T>(params, x, output, positions.data<std::int32_t>());
        } else {
            max_forward_typed<T>(params, x, output,
                                 positions.defined() ? positions.data<std::uint8_t>() : nullptr);
        }
    });
}

/// Calls `visit(tap, output)` for each tap through which some window reads coordinate `at`.
template <class Visit>
void for_each_cover(std::int64_t at, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                    std::int64_t dilation, std::int64_t outputs, const Visit& visit) {
    // Outputs whose window may reach `at`, first to last; with a dilation only some of them do.
    const std::int64_t far = at + padding;
    const std::int64_t extent = dilation * (kernel - 1);
    const std::int64_t first = far > extent ? (far - extent + stride - 1) / stride : 0;
    const std::int64_t last = std::min(outputs - 1, far / stride);
    for (std::int64_t output = first; output <= last; ++output) {
        const std::int64_t distance = far - output * stride;
        if (distance % dilation == 0) visit(distance / dilation, output);
    }
}

template <class T, class P>
void max_backward_typed(const Pool2dParams& p, const Tensor& grad_output, const P* positions,
                        Tensor& grad_x) {
    using V = Arithmetic<T>;
    const std::int64_t channels = grad_x.size(1);
    const std::int64_t out_height = grad_output.size(2);
    const std::int64_t out_width = grad_output.size(3);
    const T* source = grad_output.data<T>();
    T* target = grad_x.data<T>();
    // Gathered, not scattered: each input pixel asks the windows over it whether it won.
    for_each_pixel(grad_x.shape(), [&](std::int64_t n, std::int64_t y, std::int64_t x, std::int64_t pixel) {
        for (std::int64_t begin = 0; begin < channels; begin += kBlock) {
            const std::int64_t count = std::min(kBlock, channels - begin);
            Accumulators<T> sums{};
            for_each_cover(y, p.kernel[0], p.stride[0], p.padding[0], p.dilation[0], out_height,
                           [&](std::int64_t r, std::int64_t oy) {
                               for_each_cover(x, p.kernel[1], p.stride[1], p.padding[1], p.dilation[1],
                                              out_width, [&](std::int64_t c, std::int64_t ox) {
                                                  const std::int64_t offset =
                                                      ((n * out_height + oy) * out_width + ox) * channels +
                                                      begin;
                                                  const auto tap = static_cast<P>(r * p.kernel[1] + c);
                                                  for (std::int64_t j = 0; j < count; ++j) {
                                                      const V value = static_cast<V>(source[offset + j]);
                                                      sums[static_cast<std::size_t>(j)] +=
                                                          positions[offset + j] == tap ? value : V{0};
                                                  }
                                              });
                           });
            store<T>(sums, count, V{1}, target + pixel * channels + begin);
        }
    });
}

void max_backward(const Pool2dParams& params, const Tensor& grad_output, const Tensor& positions,
                  Tensor& grad_x) {
    visit_floating(grad_output.dtype(), "max_pool2d", [&](auto tag) {
        using T = typename decltype(tag)::type;
        if (positions.dtype() == DType::i32) {
            max_backward_typed<T>(params, grad_output, positions.data<std::int32_t>(), grad_x);
        } else {
            max_backward_typed<T>(params, grad_output, positions.data<std::uint8_t>(), grad_x);
        }
    });
}

// --- Averages
// ----------------------------------------------------------------------------------------------------------

/// One dimension of a window: the rows (or columns) `begin..end-1` of the image, and how many of them the
/// average divides by.
struct Window {
    std::int64_t begin, end, divisor;
};

/// The windows of `avg_pool2d` along dimension `d`.
Window avg_window(const Pool2dParams& p, std::size_t d, std::int64_t output, std::int64_t size) {
    const std::int64_t start = output * p.stride[d] - p.padding[d];
    // With ceil_mode the last window may leave the far padding; what is outside is not counted.
    const std::int64_t stop = std::min(start + p.kernel[d], size + p.padding[d]);
    const std::int64_t begin = std::max<std::int64_t>(start, 0);
    const std::int64_t end = std::min(stop, size);
    return {begin, end, p.count_include_pad ? stop - start : end - begin};
}

/// The windows of `adaptive_avg_pool2d` along one dimension.
Window adaptive_window(std::int64_t output, std::int64_t outputs, std::int64_t size) {
    const std::int64_t begin = output * size / outputs;
    const std::int64_t end = ((output + 1) * size + outputs - 1) / outputs;
    return {begin, end, end - begin};
}

/// \param row_window, column_window give the `Window` of an output row or column.
template <class T, class RowWindow, class ColumnWindow>
void average_forward(const Tensor& x, Tensor& output, const RowWindow& row_window,
                     const ColumnWindow& column_window) {
    using V = Arithmetic<T>;
    const std::int64_t channels = x.size(1);
    const std::int64_t height = x.size(2);
    const std::int64_t width = x.size(3);
    const T* source = x.data<T>();
    T* target = output.data<T>();
    for_each_pixel(output.shape(), [&](std::int64_t n, std::int64_t oy, std::int64_t ox, std::int64_t pixel) {
        const Window rows = row_window(oy);
        const Window columns = column_window(ox);
        const V factor = V{1} / static_cast<V>(rows.divisor * columns.divisor);
        for (std::int64_t begin = 0; begin < channels; begin += kBlock) {
            const std::int64_t count = std::min(kBlock, channels - begin);
            Accumulators<T> sums{};
            for (std::int64_t y = rows.begin; y < rows.end; ++y) {
                for (std::int64_t c = columns.begin; c < columns.end; ++c) {
                    const T* values = source + ((n * height + y) * width + c) * channels + begin;
                    for (std::int64_t j = 0; j < count; ++j)
                        sums[static_cast<std::size_t>(j)] += static_cast<V>(values[j]);
                }
            }
            store<T>(sums, count, factor, target + pixel * channels + begin);
        }
    });
}

/// \param row_outputs, column_outputs call a function with each output whose window contains a coordinate.
template <class T, class RowWindow, class ColumnWindow, class RowOutputs, class ColumnOutputs>
void average_backward(const Tensor& grad_output, Tensor& grad_x, const RowWindow& row_window,
                      const ColumnWindow& column_window, const RowOutputs& row_outputs,
                      const ColumnOutputs& column_outputs) {
    using V = Arithmetic<T>;
    const std::int64_t channels = grad_x.size(1);
    const std::int64_t out_height = grad_output.size(2);
    const std::int64_t out_width = grad_output.size(3);
    const T* source = grad_output.data<T>();
    T* target = grad_x.data<T>();
    for_each_pixel(grad_x.shape(), [&](std::int64_t n, std::int64_t y, std::int64_t x, std::int64_t pixel) {
        for (std::int64_t begin = 0; begin < channels; begin += kBlock) {
            const std::int64_t count = std::min(kBlock, channels - begin);
            Accumulators<T> sums{};
            row_outputs(y, [&](std::int64_t oy) {
                column_outputs(x, [&](std::int64_t ox) {
                    const V factor =
                        V{1} / static_cast<V>(row_window(oy).divisor * column_window(ox).divisor);
                    const T* values = source + ((n * out_height + oy) * out_width + ox) * channels + begin;
                    for (std::int64_t j = 0; j < count; ++j)
                        sums[static_cast<std::size_t>(j)] += static_cast<V>(values[j]) * factor;
                });
            });
            store<T>(sums, count, V{1}, target + pixel * channels + begin);
        }
    });
}

void avg_forward(const Pool2dParams& p, const Tensor& x, Tensor& output) {
    visit_floating(x.dtype(), "avg_pool2d", [&](auto tag) {
        average_forward<typename decltype(tag)::type>(
            x, output, [&](std::int64_t oy) { return avg_window(p, 0, oy, x.size(2)); },
            [&](std::int64_t ox) { return avg_window(p, 1, ox, x.size(3)); });
    });
}

void avg_backward(const Pool2dParams& p, const Tensor& grad_output, Tensor& grad_x) {
    const auto outputs = [&p, &grad_output](std::size_t d) {
        return [&p, d, count = grad_output.size(static_cast<std::int64_t>(d) + 2)](std::int64_t at,
                                                                                   const auto& visit) {
            for_each_cover(at, p.kernel[d], p.stride[d], p.padding[d], 1, count,
                           [&](std::int64_t, std::int64_t output) { visit(output); });
        };
    };
    visit_floating(grad_output.dtype(), "avg_pool2d", [&](auto tag) {
        average_backward<typename decltype(tag)::type>(
            grad_output, grad_x, [&](std::int64_t oy) { return avg_window(p, 0, oy, grad_x.size(2)); },
            [&](std::int64_t ox) { return avg_window(p, 1, ox, grad_x.size(3)); }, outputs(0), outputs(1));
    });
}

void adaptive_avg_forward(const Tensor& x, Tensor& output) {
    visit_floating(x.dtype(), "adaptive_avg_pool2d", [&](auto tag) {
        average_forward<typename decltype(tag)::type>(
            x, output, [&](std::int64_t oy) { return adaptive_window(oy, output.size(2), x.size(2)); },
            [&](std::int64_t ox) { return adaptive_window(ox, output.size(3), x.size(3)); });
    });
}

void adaptive_avg_backward(const Tensor& grad_output, Tensor& grad_x) {
    const auto outputs = [](std::int64_t count, std::int64_t size) {
        return [count, size](std::int64_t at, const auto& visit) {
            // Window i ends above `at` from i = floor(at * count / size) on, and starts at or below it until
            // the next one does not.
            for (std::int64_t i = at * count / size; i < count && i * size / count <= at; ++i)
                visit(i);
        };
    };
    const std::int64_t out_height = grad_output.size(2);
    const std::int64_t out_width = grad_output.size(3);
    visit_floating(grad_output.dtype(), "adaptive_avg_pool2d", [&](auto tag) {
        average_backward<typename decltype(tag)::type>(
            grad_output, grad_x,
            [&](std::int64_t oy) { return adaptive_window(oy, out_height, grad_x.size(2)); },
            [&](std::int64_t ox) { return adaptive_window(ox, out_width, grad_x.size(3)); },
            outputs(out_height, grad_x.size(2)), outputs(out_width, grad_x.size(3)));
    });
}

}  // namespace

const Pool2dKernels& pool2d_kernels() {
    static constexpr Pool2dKernels kKernels{.max_forward = max_forward,
                                            .max_backward = max_backward,
                                            .avg_forward = avg_forward,
                                            .avg_backward = avg_backward,
                                            .adaptive_avg_forward = adaptive_avg_forward,
                                            .adaptive_avg_backward = adaptive_avg_backward};
    return kKernels;
}

}  // namespace fulcrum::cpu
