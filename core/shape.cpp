#include "core/shape.h"

#include "core/error.h"

#include <algorithm>

namespace fulcrum {

namespace {

void check_rank(std::size_t rank) {
    if (rank > Dims::kMaxRank) {
        throw ShapeError("a tensor has at most " + std::to_string(Dims::kMaxRank) + " dimensions, " +
                         std::to_string(rank) + " were asked for");
    }
}

/// A stride's product. Overflow is only possible where a shape has no elements, whose strides say nothing.
std::int64_t stride_product(std::initializer_list<std::int64_t> factors) {
    std::int64_t product = 1;
    for (const std::int64_t factor : factors) {
        if (__builtin_mul_overflow(product, std::max<std::int64_t>(1, factor), &product)) return 1;
    }
    return product;
}

void check_image_rank(const Shape& shape, const char* what) {
    if (shape.size() != 4) {
        throw ShapeError(std::string(what) + " layout needs a 4-D shape, not " + to_string(shape));
    }
}

}  // namespace

Dims::Dims(std::span<const std::int64_t> values) : size_(values.size()) {
    check_rank(size_);
    std::copy(values.begin(), values.end(), values_.begin());
}

Dims Dims::filled(std::size_t count, std::int64_t value) {
    check_rank(count);
    Dims dims;
    dims.size_ = count;
    std::fill_n(dims.values_.begin(), count, value);
    return dims;
}

void Dims::push_back(std::int64_t value) {
    insert(size_, value);
}

void Dims::insert(std::size_t at, std::int64_t value) {
    check_rank(size_ + 1);
    std::copy_backward(begin() + at, end(), end() + 1);
    values_[at] = value;
    ++size_;
}

void Dims::erase(std::size_t at) {
    std::copy(begin() + at + 1, end(), begin() + at);
    --size_;
}

bool operator==(const Dims& a, const Dims& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

std::string to_string(const Dims& dims) {
    std::string text = "[";
    for (std::size_t i = 0; i < dims.size(); ++i)
        text += (i == 0 ? "" : ", ") + std::to_string(dims[i]);
    return text + "]";
}

std::int64_t element_count(const Shape& shape) {
    std::int64_t count = 1;
    bool overflow = false;
    for (const std::int64_t size : shape) {
        if (size < 0) throw ShapeError("shape " + to_string(shape) + " has a negative size");
        if (__builtin_mul_overflow(count, size, &count)) overflow = true;
    }
    if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
    if (overflow) throw ShapeError("shape " + to_string(shape) + " has more elements than 63 bits can count");
    return count;
}

Strides contiguous_strides(const Shape& shape) {
    Strides strides = Dims::filled(shape.size(), 1);
    for (std::size_t i = shape.size(); i-- > 1;) {
        strides[i - 1] = stride_product({strides[i], shape[i]});
    }
    return strides;
}

Strides channels_last_strides(const Shape& shape) {
    check_image_rank(shape, "channels-last");
    const std::int64_t row = stride_product({shape[1], shape[3]});
    return {stride_product({row, shape[2]}), 1, row, stride_product({shape[1]})};
}

Strides tap_major_strides(const Shape& shape) {
    check_image_rank(shape, "tap-major");
    const std::int64_t tap = stride_product({shape[0], shape[1]});
    return {1, stride_product({shape[0]}), stride_product({tap, shape[3]}), tap};
}

Shape broadcast_shapes(const Shape& a, const Shape& b, const char* op) {
    const std::size_t rank = std::max(a.size(), b.size());
    Shape result = Dims::filled(rank, 1);
    for (std::size_t i = 0; i < rank; ++i) {
        const std::int64_t left = i < rank - a.size() ? 1 : a[i - (rank - a.size())];
        const std::int64_t right = i < rank - b.size() ? 1 : b[i - (rank - b.size())];
        if (left != right && left != 1 && right != 1) {
            throw ShapeError(std::string(op) + ": shapes " + to_string(a) + " and " + to_string(b) +
                             " do not broadcast: sizes must be equal or 1, counted from the last dimension");
        }
        result[i] = left == 1 ? right : left;
    }
    return result;
}

std::size_t normalize_dim(std::int64_t dim, std::size_t rank, const char* op) {
    const auto limit = static_cast<std::int64_t>(std::max<std::size_t>(1, rank));
    if (dim < -limit || dim >= limit) {
        throw ShapeError(std::string(op) + ": dimension " + std::to_string(dim) + " is outside " +
                         std::to_string(-limit) + ".." + std::to_string(limit - 1) + " of a tensor with " +
                         std::to_string(rank) + " dimensions");
    }
    return static_cast<std::size_t>(dim < 0 ? dim + limit : dim);
}

}  // namespace fulcrum
