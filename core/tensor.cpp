#include "core/tensor.h"

#include "core/autograd.h"
#include "core/backend.h"
#include "core/ops/binary.h"
#include "core/ops/copy.h"
#include "core/ops/shape.h"
#include "core/tensor_internal.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

namespace fulcrum {

// --- Storage
// --------------------------------------------------------------------------------------------------------

Storage::Storage(std::size_t bytes, Device device) : bytes_(bytes), device_(device) {
    data_ = runtime(device).allocator(device.index).allocate(bytes);
    runtime_ = find_runtime(device.type);
}

Storage::~Storage() {
    if (data_ != nullptr) runtime_->allocator(device_.index).deallocate(data_);
}

// --- Shape and memory
// -----------------------------------------------------------------------------------------------

const TensorImpl& Tensor::checked() const {
    if (impl_ == nullptr)
        throw ValueError("an undefined tensor was used; make it with zeros(), from_data(), ...");
    return *impl_;
}

const Shape& Tensor::shape() const {
    return checked().shape;
}
const Strides& Tensor::strides() const {
    return checked().strides;
}
std::int64_t Tensor::numel() const {
    return checked().numel;
}
DType Tensor::dtype() const {
    return checked().dtype;
}
Device Tensor::device() const {
    return checked().storage->device();
}
const std::shared_ptr<Storage>& Tensor::storage() const {
    return checked().storage;
}
std::int64_t Tensor::storage_offset() const {
    return checked().offset;
}
void Tensor::bump_version() const {
    checked().storage->bump_version();
}

std::int64_t Tensor::size(std::int64_t dim) const {
    if (shape().empty())
        throw ShapeError("size: a scalar has no dimensions, dimension " + std::to_string(dim) +
                         " was asked for");
    return shape()[normalize_dim(dim, shape().size(), "size")];
}

namespace {

// Strides of dimensions with one element do not matter.
bool same_layout(const Shape& shape, const Strides& a, const Strides& b) {
    for (std::size_t i = 0; i < shape.size(); ++i) {
        if (shape[i] != 1 && a[i] != b[i]) return false;
    }
    return true;
}

bool is_dense_layout(const Shape& shape, const Strides& strides) {
    Shape left;
    Strides left_strides;
    for (std::size_t i = 0; i < shape.size(); ++i) {
        if (shape[i] == 0) return true;
        if (shape[i] == 1) continue;
        left.push_back(shape[i]);
        left_strides.push_back(strides[i]);
    }
    // From the innermost outwards: each dimension must continue where the previous one ends.
    std::int64_t expected = 1;
    while (!left.empty()) {
        const std::int64_t* next = std::find(left_strides.begin(), left_strides.end(), expected);
        if (next == left_strides.end()) return false;
        const auto at = static_cast<std::size_t>(next - left_strides.begin());
        expected *= left[at];
        left.erase(at);
        left_strides.erase(at);
    }
    return true;
}

Strides strides_of(const Shape& shape, MemoryFormat format) {
    switch (format) {
        case MemoryFormat::contiguous:
            return contiguous_strides(shape);
        case MemoryFormat::channels_last:
            return channels_last_strides(shape);
        case MemoryFormat::tap_major:
            break;
    }
    return tap_major_strides(shape);
}

std::size_t bytes_of(std::int64_t count, DType dtype, const Shape& shape) {
    std::size_t bytes = 0;
    if (__builtin_mul_overflow(static_cast<std::size_t>(count), size_of(dtype), &bytes) ||
        bytes > static_cast<std::size_t>(PTRDIFF_MAX)) {
        throw ShapeError("a tensor of shape " + to_string(shape) + " does not fit the address space");
    }
    return bytes;
}

}  // namespace

bool Tensor::is_contiguous() const {
    return numel() == 0 || same_layout(shape(), strides(), contiguous_strides(shape()));
}

bool Tensor::is_channels_last() const {
    return shape().size() == 4 &&
           (numel() == 0 || same_layout(shape(), strides(), channels_last_strides(shape())));
}

bool Tensor::is_dense() const {
    return is_dense_layout(shape(), strides());
}

void* Tensor::raw_data() const {
    const TensorImpl& impl = checked();
    if (impl.numel == 0) return nullptr;
    return static_cast<std::byte*>(impl.storage->data()) +
           impl.offset * static_cast<std::int64_t>(size_of(impl.dtype));
}

void Tensor::check_dtype(DType asked) const {
    if (dtype() != asked) {
        throw DTypeError("data: the tensor holds " + std::string(name_of(dtype())) + ", " +
                         std::string(name_of(asked)) + " was asked for; convert with to(DType)");
    }
}

template <class T>
std::vector<T> Tensor::to_vector() const {
    const NoGradGuard no_grad;
    const Tensor host = detach().to(kCpu).to(dtype_of<T>()).contiguous();
    std::vector<T> values(static_cast<std::size_t>(numel()));
    if (!values.empty()) std::memcpy(values.data(), host.raw_data(), values.size() * sizeof(T));
    return values;
}

double Tensor::item() const {
    if (numel() != 1) {
        throw ShapeError("item: a tensor of shape " + to_string(shape()) + " has " + std::to_string(numel()) +
                         " elements, exactly one is needed");
    }
    return to_vector<double>().front();
}

// --- Views and factories
// ----------------------------------------------------------------------------------------------

namespace {

/// True when every element of the view lies in the storage, computed without overflow.
bool stays_inside(const Storage& storage, std::int64_t offset, const Shape& shape, const Strides& strides,
                  std::size_t element_size) {
    std::int64_t first = offset;
    std::int64_t last = offset;
    for (std::size_t i = 0; i < shape.size(); ++i) {
        std::int64_t reach = 0;
        std::int64_t& end = strides[i] < 0 ? first : last;
        if (__builtin_mul_overflow(shape[i] - 1, strides[i], &reach) ||
            __builtin_add_overflow(end, reach, &end)) {
            return false;
        }
    }
    return first >= 0 && static_cast<std::size_t>(last) < storage.bytes() / element_size;
}

}  // namespace

Tensor Tensor::view_of(std::shared_ptr<Storage> storage, std::int64_t offset, const Shape& shape,
                       const Strides& strides, DType dtype) {
    if (storage == nullptr) throw ValueError("view_of: there is no storage to look at");
    if (strides.size() != shape.size()) {
        throw ShapeError("view_of: shape " + to_string(shape) + " and strides " + to_string(strides) +
                         " differ in the number of dimensions");
    }
    const std::int64_t count = element_count(shape);
    if (offset < 0 || (count > 0 && !stays_inside(*storage, offset, shape, strides, size_of(dtype)))) {
        throw ShapeError("a view of shape " + to_string(shape) + " with strides " + to_string(strides) +
                         " at offset " + std::to_string(offset) + " leaves its storage of " +
                         std::to_string(storage->bytes()) + " bytes");
    }
    auto impl = std::make_shared<TensorImpl>();
    impl->storage = std::move(storage);
    impl->offset = offset;
    impl->shape = shape;
    impl->strides = strides;
    impl->dtype = dtype;
    impl->numel = count;
    return Tensor(std::move(impl));
}

Tensor empty_strided(const Shape& shape, const Strides& strides, const TensorOptions& options) {
    const std::int64_t count = element_count(shape);
    if (strides.size() != shape.size() || !is_dense_layout(shape, strides)) {
        throw ShapeError("strides " + to_string(strides) + " do not describe a dense block of shape " +
                         to_string(shape));
    }
    auto storage = std::make_shared<Storage>(bytes_of(count, options.dtype, shape), options.device);
    Tensor result = Tensor::view_of(std::move(storage), 0, shape, strides, options.dtype);
    if (options.requires_grad) result.set_requires_grad();
    return result;
}

Tensor empty(const Shape& shape, const TensorOptions& options) {
    element_count(shape);
    return empty_strided(shape, strides_of(shape, options.format), options);
}

Tensor empty_like(const Tensor& like) {
    return empty_like(like, like.dtype());
}

Tensor empty_like(const Tensor& like, DType dtype) {
    const Strides strides =
        like.is_dense() && like.numel() > 0 ? like.strides() : contiguous_strides(like.shape());
    return empty_strided(like.shape(), strides, {.dtype = dtype, .device = like.device()});
}

Tensor full(const Shape& shape, double value, const TensorOptions& options) {
    TensorOptions plain = options;
    plain.requires_grad = false;
    Tensor result = empty(shape, plain);
    result.fill_(value);
    if (options.requires_grad) result.set_requires_grad();
    return result;
}

Tensor zeros(const Shape& shape, const TensorOptions& options) {
    return full(shape, 0.0, options);
}
Tensor ones(const Shape& shape, const TensorOptions& options) {
    return full(shape, 1.0, options);
}
Tensor scalar(double value, const TensorOptions& options) {
    return full({}, value, options);
}

Tensor zeros_like(const Tensor& like) {
    Tensor result = empty_like(like);
    result.zero_();
    return result;
}

template <class T>
Tensor from_data(std::span<const T> values, const Shape& shape, const TensorOptions& options) {
    if (element_count(shape) != static_cast<std::int64_t>(values.size())) {
        throw ShapeError("from_data: " + std::to_string(values.size()) + " values do not fill shape " +
                         to_string(shape));
    }
    const Tensor host = empty(shape, {.dtype = dtype_of<T>()});
    if (!values.empty()) std::memcpy(host.raw_data(), values.data(), values.size_bytes());
    TensorOptions plain = options;
    plain.requires_grad = false;
    Tensor result = host;
    const bool as_is =
        options.dtype == host.dtype() && options.device == kCpu && options.format == MemoryFormat::contiguous;
    if (!as_is) {
        result = empty(shape, plain);
        result.copy_(host);
    }
    if (options.requires_grad) result.set_requires_grad();
    return result;
}

template <class T>
Tensor tensor(std::initializer_list<T> values, const Shape& shape, Device device) {
    return from_data<T>(std::span<const T>(values.begin(), values.size()), shape,
                        {.dtype = dtype_of<T>(), .device = device});
}

namespace {

template <class Draw>
Tensor drawn(const Shape& shape, const TensorOptions& options, Generator& generator, const Draw& draw) {
    const Tensor host = empty(shape, {.dtype = DType::f64});
    RandomStream stream(generator.seed(), generator.take_stream());
    const std::span<double> values(static_cast<double*>(host.raw_data()),
                                   static_cast<std::size_t>(host.numel()));
    for (double& value : values)
        value = draw(stream);
    return from_data<double>(values, shape, options);
}

}  // namespace

Tensor uniform(const Shape& shape, double low, double high, const TensorOptions& options,
               Generator& generator) {
    return drawn(shape, options, generator,
                 [=](RandomStream& stream) { return low + (high - low) * stream.uniform(); });
}

Tensor normal(const Shape& shape, double mean, double deviation, const TensorOptions& options,
              Generator& generator) {
    return drawn(shape, options, generator,
                 [=](RandomStream& stream) { return mean + deviation * stream.normal(); });
}

// --- Conversions
// --------------------------------------------------------------------------------------------------------

Tensor Tensor::detach() const {
    const TensorImpl& impl = checked();
    return view_of(impl.storage, impl.offset, impl.shape, impl.strides, impl.dtype);
}

Tensor Tensor::to(DType wanted) const {
    return cast(*this, wanted);
}

Tensor Tensor::to(Device wanted) const {
    if (device() == wanted) return *this;
    const Strides order = is_dense() ? strides() : contiguous_strides(shape());
    const Tensor result = empty_strided(shape(), order, {.dtype = dtype(), .device = wanted});
    result.copy_(*this);
    return autograd::record("to", result, {*this}, {}, [home = device()](autograd::BackwardContext& context) {
        context.set_grad(0, context.grad().to(home));
    });
}

Tensor Tensor::contiguous(MemoryFormat format) const {
    const Strides wanted = strides_of(shape(), format);
    if (numel() == 0 || same_layout(shape(), strides(), wanted)) return *this;
    const Tensor result = empty_strided(shape(), wanted, {.dtype = dtype(), .device = device()});
    result.copy_(*this);
    return autograd::record("contiguous", result, {*this}, {},
                            [](autograd::BackwardContext& context) { context.set_grad(0, context.grad()); });
}

Tensor Tensor::clone() const {
    const Tensor result = empty_like(*this);
    result.copy_(*this);
    return autograd::record("clone", result, {*this}, {},
                            [](autograd::BackwardContext& context) { context.set_grad(0, context.grad()); });
}

// --- In place
// -------------------------------------------------------------------------------------------------------------

namespace {

/// Refuses a destination some of whose elements are one place in memory, as in an expanded view: written
/// element by element it would hold whichever value came last.
void check_distinct(const Tensor& tensor, const char* op) {
    Dims sizes;
    Dims steps;
    for (std::size_t d = 0; d < tensor.shape().size(); ++d) {
        if (tensor.shape()[d] == 0) return;
        if (tensor.shape()[d] == 1) continue;
        std::size_t at = 0;
        while (at < steps.size() && steps[at] < tensor.strides()[d])
            ++at;
        steps.insert(at, tensor.strides()[d]);
        sizes.insert(at, tensor.shape()[d]);
    }
    // From the innermost outwards: each step must lead beyond all that the inner dimensions reach.
    std::int64_t reach = 0;
    for (std::size_t d = 0; d < steps.size(); ++d) {
        if (steps[d] <= reach) {
            throw ValueError(std::string(op) + ": elements of the destination, shape " +
                             to_string(tensor.shape()) + " with strides " + to_string(tensor.strides()) +
                             ", share memory with each other; clone() it first");
        }
        reach += (sizes[d] - 1) * steps[d];
    }
}

/// The bytes of its storage that a tensor with elements reaches: first, and one past the last.
std::array<std::int64_t, 2> byte_range(const Tensor& tensor) {
    std::int64_t first = tensor.storage_offset();
    std::int64_t last = first;
    for (std::size_t d = 0; d < tensor.shape().size(); ++d) {
        (tensor.strides()[d] < 0 ? first : last) += (tensor.shape()[d] - 1) * tensor.strides()[d];
    }
    const auto size = static_cast<std::int64_t>(size_of(tensor.dtype()));
    return {first * size, (last + 1) * size};
}

/// `source`, copied when writing `destination` element by element would change elements of it that are still
/// to be read. Shapes are equal.
Tensor apart_from(const Tensor& destination, const Tensor& source) {
    if (source.numel() == 0 || source.storage() != destination.storage()) return source;
    const bool same = source.dtype() == destination.dtype() &&
                      source.storage_offset() == destination.storage_offset() &&
                      same_layout(source.shape(), source.strides(), destination.strides());
    const auto read = byte_range(source);
    const auto written = byte_range(destination);
    if (same || read[1] <= written[0] || written[1] <= read[0]) return source;
    Tensor copy = empty(source.shape(), {.dtype = source.dtype(), .device = source.device()});
    kernels<CopyKernels>(source.device()).copy(source, copy);
    return copy;
}

void copy_between_devices(const Tensor& source, const Tensor& destination) {
    const NoGradGuard no_grad;
    const bool direct = destination.is_dense();
    const Tensor target =
        direct ? destination
               : empty(destination.shape(), {.dtype = destination.dtype(), .device = destination.device()});
    // The source's own device arranges and converts, so that one plain copy crosses.
    Tensor staged = source;
    if (source.dtype() != target.dtype() ||
        !same_layout(source.shape(), source.strides(), target.strides())) {
        staged = empty_strided(target.shape(), target.strides(),
                               {.dtype = target.dtype(), .device = source.device()});
        kernels<CopyKernels>(source.device()).copy(source, staged);
    }
    const Device worker = target.device().type == DeviceType::cpu ? staged.device() : target.device();
    runtime(worker).copy(target.raw_data(), target.device(), staged.raw_data(), staged.device(),
                         static_cast<std::size_t>(target.numel()) * size_of(target.dtype()));
    if (!direct) {
        Tensor out = destination;
        kernels<CopyKernels>(destination.device()).copy(target, out);
    }
}

}  // namespace

const Tensor& Tensor::copy_(const Tensor& source) const {
    autograd::check_in_place(*this, "copy_");
    check_distinct(*this, "copy_");
    const NoGradGuard no_grad;
    const Tensor from = source.shape() == shape() ? source.detach() : expand(source.detach(), shape());
    if (numel() > 0) {
        if (from.device() == device()) {
            Tensor destination = *this;
            kernels<CopyKernels>(device()).copy(apart_from(destination, from), destination);
        } else {
            copy_between_devices(from, *this);
        }
    }
    bump_version();
    return *this;
}

const Tensor& Tensor::fill_(double value) const {
    autograd::check_in_place(*this, "fill_");
    if (numel() > 0) {
        Tensor destination = *this;
        kernels<CopyKernels>(device()).fill(destination, value);
    }
    bump_version();
    return *this;
}

const Tensor& Tensor::zero_() const {
    autograd::check_in_place(*this, "zero_");
    if (!is_dense()) return fill_(0.0);
    if (numel() > 0) {
        runtime(device()).zero(raw_data(), static_cast<std::size_t>(numel()) * size_of(dtype()),
                               device().index);
    }
    bump_version();
    return *this;
}

const Tensor& Tensor::add_(const Tensor& other, double scale) const {
    autograd::check_in_place(*this, "add_");
    check_distinct(*this, "add_");
    const NoGradGuard no_grad;
    if (other.device() != device()) {
        throw DeviceError("add_: tensors live on " + to_string(device()) + " and " +
                          to_string(other.device()) + "; move one with to(Device)");
    }
    const Tensor same_type = other.detach().to(dtype());
    const Tensor addend = same_type.shape() == shape() ? same_type : expand(same_type, shape());
    if (numel() > 0) {
        Tensor destination = *this;
        kernels<BinaryKernels>(device()).add_in_place(destination, apart_from(destination, addend), scale);
    }
    bump_version();
    return *this;
}

const Tensor& Tensor::mul_(double factor) const {
    autograd::check_in_place(*this, "mul_");
    check_distinct(*this, "mul_");
    if (numel() > 0) {
        Tensor destination = *this;
        kernels<BinaryKernels>(device()).scale_in_place(destination, factor);
    }
    bump_version();
    return *this;
}

void Tensor::set_data(const Tensor& source) const {
    const TensorImpl& from = source.checked();
    if (from.shape != shape()) {
        throw ShapeError("set_data: shape " + to_string(from.shape) + " cannot stand for " +
                         to_string(shape()));
    }
    if (requires_grad() && !is_floating(from.dtype)) {
        throw DTypeError("set_data: this tensor requires a gradient, which " +
                         std::string(name_of(from.dtype)) + " elements cannot have");
    }
    impl_->storage = from.storage;
    impl_->offset = from.offset;
    impl_->strides = from.strides;
    impl_->dtype = from.dtype;
}

// --- Text
// ---------------------------------------------------------------------------------------------------------------------

std::string to_string(const Tensor& tensor) {
    if (!tensor.defined()) return "undefined tensor";
    constexpr std::size_t kShown = 1000;
    std::string text = to_string(tensor.shape()) + " " + std::string(name_of(tensor.dtype())) + " on " +
                       to_string(tensor.device()) + " {";
    const std::vector<double> values = tensor.to_vector<double>();
    std::array<char, 32> buffer{};
    for (std::size_t i = 0; i < std::min(values.size(), kShown); ++i) {
        std::snprintf(buffer.data(), buffer.size(), "%.6g", values[i]);
        text += (i == 0 ? "" : ", ") + std::string(buffer.data());
    }
    return text + (values.size() > kShown ? ", ...}" : "}");
}

// --- Element types
// --------------------------------------------------------------------------------------------------------------

template std::vector<double> Tensor::to_vector() const;
template std::vector<float> Tensor::to_vector() const;
template std::vector<BFloat16> Tensor::to_vector() const;
template std::vector<Float16> Tensor::to_vector() const;
template std::vector<std::int64_t> Tensor::to_vector() const;
template std::vector<std::int32_t> Tensor::to_vector() const;
template std::vector<std::uint8_t> Tensor::to_vector() const;
template Tensor from_data(std::span<const double>, const Shape&, const TensorOptions&);
template Tensor from_data(std::span<const float>, const Shape&, const TensorOptions&);
template Tensor from_data(std::span<const BFloat16>, const Shape&, const TensorOptions&);
template Tensor from_data(std::span<const Float16>, const Shape&, const TensorOptions&);
template Tensor from_data(std::span<const std::int64_t>, const Shape&, const TensorOptions&);
template Tensor from_data(std::span<const std::int32_t>, const Shape&, const TensorOptions&);
template Tensor from_data(std::span<const std::uint8_t>, const Shape&, const TensorOptions&);
template Tensor tensor(std::initializer_list<double>, const Shape&, Device);
template Tensor tensor(std::initializer_list<float>, const Shape&, Device);
template Tensor tensor(std::initializer_list<BFloat16>, const Shape&, Device);
template Tensor tensor(std::initializer_list<Float16>, const Shape&, Device);
template Tensor tensor(std::initializer_list<std::int64_t>, const Shape&, Device);
template Tensor tensor(std::initializer_list<std::int32_t>, const Shape&, Device);
template Tensor tensor(std::initializer_list<std::uint8_t>, const Shape&, Device);

}  // namespace fulcrum
