#pragma once

/// \file
/// Tensor: a cheap handle to a shape, strides, an element type and a counted storage on a device.

#include "core/device.h"
#include "core/dtype.h"
#include "core/random.h"
#include "core/shape.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace fulcrum {

class DeviceRuntime;

namespace autograd {
class Engine;
struct Meta;
}  // namespace autograd

/// How the elements of a freshly made tensor lie in memory.
enum class MemoryFormat : std::uint8_t {
    contiguous,     ///< row-major in the order of the shape
    channels_last,  ///< logical `[N, C, H, W]`, memory order N, H, W, C; 4-D only
    tap_major,      ///< logical `[O, I, KH, KW]`, memory order KH, KW, I, O; 4-D only
};

/// What a new tensor is made of.
struct TensorOptions {
    DType dtype = DType::f32;
    Device device = kCpu;
    MemoryFormat format = MemoryFormat::contiguous;
    bool requires_grad = false;
};

/// A block of device memory, returned to its allocator when the last tensor lets go. The version counts
/// in-place changes, so that the tape can tell a saved tensor that was modified.
class Storage {
  public:
    /// Uninitialised memory. \throws OutOfMemoryError, DeviceError.
    Storage(std::size_t bytes, Device device);
    ~Storage();
    Storage(const Storage&) = delete;
    Storage& operator=(const Storage&) = delete;

    void* data() const { return data_; }
    std::size_t bytes() const { return bytes_; }
    Device device() const { return device_; }
    std::uint64_t version() const { return version_.load(std::memory_order_relaxed); }
    void bump_version() { version_.fetch_add(1, std::memory_order_relaxed); }

  private:
    std::shared_ptr<DeviceRuntime> runtime_;
    void* data_ = nullptr;
    std::size_t bytes_ = 0;
    Device device_;
    std::atomic<std::uint64_t> version_{0};
};

struct TensorImpl;

/// A handle: copying it shares the elements. Not thread-safe for concurrent writes to one tensor.
class Tensor {
  public:
    /// An undefined tensor: no shape, no storage. `defined()` is false and nothing else may be asked of it.
    Tensor() = default;

    bool defined() const { return impl_ != nullptr; }
    /// Same handle (not same values).
    bool is_same(const Tensor& other) const { return impl_ == other.impl_; }

    // --- Shape and memory
    // -------------------------------------------------------------------------------------
    const Shape& shape() const;
    /// In elements.
    const Strides& strides() const;
    std::int64_t dim() const { return static_cast<std::int64_t>(shape().size()); }
    /// Size along `dim`; negative counts from the end. \throws ShapeError when out of range.
    std::int64_t size(std::int64_t dim) const;
    std::int64_t numel() const;
    DType dtype() const;
    Device device() const;
    /// Row-major without gaps (sizes of 1 do not matter).
    bool is_contiguous() const;
    /// 4-D and dense in the order N, H, W, C.
    bool is_channels_last() const;
    /// The elements fill one gap-free block in some order of the dimensions.
    bool is_dense() const;

    /// First element, on the tensor's device; for kernels. Null when there are no elements.
    void* raw_data() const;
    /// First element as `T`. \throws DTypeError when `T` is not the element type.
    template <class T>
    T* data() const {
        check_dtype(dtype_of<T>());
        return static_cast<T*>(raw_data());
    }
    /// All elements in row-major order of the shape, copied to the host and converted to `T`.
    template <class T>
    std::vector<T> to_vector() const;
    /// The only element, converted. Waits for the device. \throws ShapeError unless `numel() == 1`.
    double item() const;
    const std::shared_ptr<Storage>& storage() const;
    /// Offset of the first element in the storage, in elements.
    std::int64_t storage_offset() const;
    /// Counts an in-place change; every function that writes into an existing tensor calls it.
    void bump_version() const;

    // --- Autograd
    // ---------------------------------------------------------------------------------------------
    bool requires_grad() const;
    /// Makes this leaf a variable. \throws AutogradError on a non-leaf, DTypeError on an integer type.
    Tensor& set_requires_grad(bool value = true);
    /// True when no recorded op produced it.
    bool is_leaf() const;
    /// The accumulated gradient of a leaf, or an undefined tensor.
    Tensor grad() const;
    /// Replaces the gradient; undefined clears it. \throws ShapeError, DTypeError or DeviceError.
    void set_grad(const Tensor& gradient) const;
    /// Forgets the gradient (it is undefined afterwards; memory of a gradient slot is kept).
    void zero_grad() const;
    /// Back-propagates from this scalar (`gradient` = 1) through everything recorded, adding into the leaves'
    /// `grad()`. The graph is freed as it is walked unless `retain_graph`. \throws AutogradError.
    void backward(bool retain_graph = false) const;
    /// The same from a tensor of any shape. \param gradient same shape as this tensor.
    void backward(const Tensor& gradient, bool retain_graph = false) const;
    /// The same elements, cut from the tape.
    Tensor detach() const;

    // --- Conversions (differentiable where that makes sense)
    // -----------------------------------------------------
    /// Copy on another device; the same handle when already there.
    Tensor to(Device device) const;
    /// Copy with another element type; the same handle when equal.
    Tensor to(DType dtype) const;
    /// Dense in `format`; the same handle when it already is.
    Tensor contiguous(MemoryFormat format = MemoryFormat::contiguous) const;
    /// A copy with the same strides order.
    Tensor clone() const;

    // --- In place (never recorded; \throws AutogradError on a variable outside a NoGradGuard)
    // --------------------- copy_, add_ and mul_ throw ValueError when elements of this tensor share memory.
    /// Copies `source`'s values (broadcast, cast, other device, overlapping memory allowed).
    const Tensor& copy_(const Tensor& source) const;
    const Tensor& fill_(double value) const;
    const Tensor& zero_() const;
    /// `this += scale * other` (broadcast; `other` may overlap this tensor).
    const Tensor& add_(const Tensor& other, double scale = 1.0) const;
    /// `this *= factor`.
    const Tensor& mul_(double factor) const;

    // --- For core and modules
    // ---------------------------------------------------------------------------------
    /// A new handle on `storage`. \throws ShapeError when the view leaves the storage or shape and strides
    /// differ in length; ValueError without a storage.
    static Tensor view_of(std::shared_ptr<Storage> storage, std::int64_t offset, const Shape& shape,
                          const Strides& strides, DType dtype);
    /// Makes this handle (and all copies of it) show `source`'s elements; identity, gradient and
    /// requires_grad stay. Used to move a parameter into an arena or onto a device. \throws ShapeError when
    /// shapes differ, DTypeError for integers in place of a variable's elements.
    void set_data(const Tensor& source) const;
    /// Gives a leaf a fixed place for its gradient: ops may write there directly, and `grad()` is that place
    /// once a gradient has arrived. \param slot same shape, strides and device as this tensor.
    void set_grad_slot(const Tensor& slot) const;
    /// Autograd state, created on demand (`create`) or null.
    autograd::Meta* autograd_meta(bool create = false) const;

  private:
    friend class autograd::Engine;
    explicit Tensor(std::shared_ptr<TensorImpl> impl) : impl_(std::move(impl)) {}
    void check_dtype(DType asked) const;
    const TensorImpl& checked() const;

    std::shared_ptr<TensorImpl> impl_;
};

// --- Factories
// ------------------------------------------------------------------------------------------------------

/// Uninitialised. \throws ShapeError for negative or overflowing sizes, OutOfMemoryError.
Tensor empty(const Shape& shape, const TensorOptions& options = {});
/// Uninitialised, with the given strides, which must describe a dense block. \throws ShapeError.
Tensor empty_strided(const Shape& shape, const Strides& strides, const TensorOptions& options = {});
/// Uninitialised with `like`'s shape, device and order of dimensions in memory.
Tensor empty_like(const Tensor& like);
/// The same with another element type.
Tensor empty_like(const Tensor& like, DType dtype);
/// All zeros.
Tensor zeros(const Shape& shape, const TensorOptions& options = {});
/// All ones.
Tensor ones(const Shape& shape, const TensorOptions& options = {});
/// All `value`.
Tensor full(const Shape& shape, double value, const TensorOptions& options = {});
/// Zeros with `like`'s shape, type, device and order.
Tensor zeros_like(const Tensor& like);
/// Copies host values in row-major order. \throws ShapeError when the count does not fit the shape.
template <class T>
Tensor from_data(std::span<const T> values, const Shape& shape, const TensorOptions& options = {});
/// `tensor<float>({1, 2, 3}, {3})`: element type `T` whatever `options.dtype` says.
template <class T>
Tensor tensor(std::initializer_list<T> values, const Shape& shape, Device device = kCpu);
/// A scalar (shape `[]`).
Tensor scalar(double value, const TensorOptions& options = {});
/// Uniform in [low, high), drawn on the host in row-major order, then copied to the device: the same values
/// everywhere.
Tensor uniform(const Shape& shape, double low, double high, const TensorOptions& options = {},
               Generator& generator = default_generator());
/// Normal with the given mean and deviation, drawn like `uniform`.
Tensor normal(const Shape& shape, double mean, double deviation, const TensorOptions& options = {},
              Generator& generator = default_generator());

/// A short text: shape, type, device and up to 1,000 values.
std::string to_string(const Tensor& tensor);

}  // namespace fulcrum
