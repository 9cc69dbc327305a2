#pragma once

/// \file
/// Shapes and strides: short lists of 64-bit integers held in place, and the arithmetic on them.

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace fulcrum {

/// A list of up to eight 64-bit integers without a heap allocation. Used for shapes (sizes >= 0) and strides
/// (in elements).
class Dims {
  public:
    /// The largest number of dimensions a tensor can have.
    static constexpr std::size_t kMaxRank = 8;

    Dims() = default;
    /// \throws ShapeError when more than eight values are given.
    Dims(std::initializer_list<std::int64_t> values) : Dims(std::span(values.begin(), values.size())) {}
    /// \throws ShapeError when more than eight values are given.
    explicit Dims(std::span<const std::int64_t> values);

    /// `count` copies of `value`. \throws ShapeError when `count` exceeds eight.
    static Dims filled(std::size_t count, std::int64_t value);

    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    std::int64_t operator[](std::size_t i) const { return values_[i]; }
    std::int64_t& operator[](std::size_t i) { return values_[i]; }
    const std::int64_t* begin() const { return values_.data(); }
    const std::int64_t* end() const { return values_.data() + size_; }
    std::int64_t* begin() { return values_.data(); }
    std::int64_t* end() { return values_.data() + size_; }
    std::int64_t back() const { return values_[size_ - 1]; }
    operator std::span<const std::int64_t>() const { return {values_.data(), size_}; }

    /// Appends a value. \throws ShapeError when full.
    void push_back(std::int64_t value);
    /// Inserts `value` before position `at` (`at <= size()`). \throws ShapeError when full.
    void insert(std::size_t at, std::int64_t value);
    /// Removes position `at` (`at < size()`).
    void erase(std::size_t at);

    friend bool operator==(const Dims& a, const Dims& b);

  private:
    std::array<std::int64_t, kMaxRank> values_{};
    std::size_t size_ = 0;
};

/// Sizes of a tensor, outermost first. An empty shape is a scalar.
using Shape = Dims;
/// Distances between neighbours along each dimension, in elements.
using Strides = Dims;

/// `[64, 3, 3, 3]`.
std::string to_string(const Dims& dims);

/// Number of elements. \throws ShapeError for a negative size or when the product exceeds 63 bits.
std::int64_t element_count(const Shape& shape);

/// Row-major strides: the last dimension is dense.
Strides contiguous_strides(const Shape& shape);

/// Strides of a logical `[N, C, H, W]` shape whose memory order is N, H, W, C. \throws ShapeError unless 4-D.
Strides channels_last_strides(const Shape& shape);

/// Strides of a logical `[O, I, KH, KW]` convolution weight whose memory order is KH, KW, I, O: every filter
/// tap is one dense `[I, O]` matrix, the order that GEMM-based kernels read without a copy. \throws
/// ShapeError unless 4-D.
Strides tap_major_strides(const Shape& shape);

/// The shape that `a` and `b` broadcast to (NumPy's rule). \param op name for the message.
/// \throws ShapeError when a pair of sizes differs and neither is 1.
Shape broadcast_shapes(const Shape& a, const Shape& b, const char* op);

/// Maps a possibly negative dimension to `0..rank-1` (`-1` is the last). A scalar accepts 0 and -1.
/// \throws ShapeError when out of range, naming `op`.
std::size_t normalize_dim(std::int64_t dim, std::size_t rank, const char* op);

}  // namespace fulcrum
