#pragma once

/// \file
/// What every kernel that calls oneDNN shares: engine and stream, cached primitives, scratchpads from our own
/// allocator, and errors that keep oneDNN's words. Only sources of `kernels/cpu` include this.

#include "core/dtype.h"
#include "core/shape.h"
#include "kernels/cpu/scratch.h"

#include <oneapi/dnnl/dnnl.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>

namespace fulcrum::cpu::onednn {

/// The CPU engine; one for the process.
dnnl::engine& engine();

/// The calling thread's stream. On the CPU a primitive has run when `execute` returns.
dnnl::stream& stream();

/// True where oneDNN has fast kernels for bf16; elsewhere 16-bit work goes through f32.
bool has_fast_bf16();

/// oneDNN's name of f32 or bf16. \throws DTypeError for the types that we never hand over.
dnnl::memory::data_type data_type(DType dtype);

/// A description with explicit strides.
dnnl::memory::desc strided(const Shape& shape, DType dtype, const Strides& strides);

/// A description that leaves the layout to the primitive.
dnnl::memory::desc any_layout(const Shape& shape, DType dtype);

/// Attributes of every primitive here: the scratchpad is ours.
dnnl::primitive_attr attributes();

/// Rethrows `error` as our own: `conv2d: oneDNN 2.6.3: <its text> (<its status>)`.
/// \throws OutOfMemoryError or Error.
[[noreturn]] void rethrow(const char* op, const dnnl::error& error);

/// Calls `function` and translates oneDNN's exceptions. \param op names the operation in the message.
template <class Function>
decltype(auto) translated(const char* op, Function&& function) {
    try {
        return function();
    } catch (const dnnl::error& error) {
        rethrow(op, error);
    }
}

/// What tells one primitive from another: numbers in an agreed order, with the thread count among them,
/// because a primitive is laid out for the threads it was made with.
class Key {
  public:
    /// Starts with the number of threads (asking for it also brings OpenMP, and so oneDNN, in line).
    Key();
    explicit Key(std::initializer_list<std::int64_t> values) : Key() { add({values.begin(), values.size()}); }

    void add(std::int64_t value) { values_.at(size_++) = value; }
    void add(std::span<const std::int64_t> values) {
        for (const std::int64_t value : values)
            add(value);
    }

    std::size_t hash() const;
    friend bool operator==(const Key& a, const Key& b) {
        return a.size_ == b.size_ && a.values_ == b.values_;
    }

  private:
    std::array<std::int64_t, 48> values_{};
    std::size_t size_ = 0;
};

/// Primitives of one family, made on first use. Thread-safe. A program that keeps changing shapes (say, a
/// last batch of another size) stays within a bound: when the cache is full it starts afresh.
template <class Value>
class Cache {
  public:
    /// The value for `key`, from `make()` when it is new. Values live on while somebody holds them.
    template <class Make>
    std::shared_ptr<const Value> get(const Key& key, const Make& make) {
        {
            const std::lock_guard lock(mutex_);
            const auto found = values_.find(key);
            if (found != values_.end()) return found->second;
        }
        auto made = std::make_shared<const Value>(make());
        const std::lock_guard lock(mutex_);
        if (values_.size() >= kCapacity) values_.clear();
        return values_.emplace(key, std::move(made)).first->second;
    }

  private:
    static constexpr std::size_t kCapacity = 1024;
    struct Hash {
        std::size_t operator()(const Key& key) const { return key.hash(); }
    };

    std::mutex mutex_;
    std::unordered_map<Key, std::shared_ptr<const Value>, Hash> values_;
};

/// oneDNN's view of memory that we own. It is never written through when passed as an input.
inline dnnl::memory view(const dnnl::memory::desc& description, const void* data) {
    return {description, engine(), const_cast<void*>(data)};
}

}  // namespace fulcrum::cpu::onednn
