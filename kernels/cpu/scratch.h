#pragma once

/// \file
/// Temporary memory for one kernel call.

#include "core/backend.h"

#include <cstddef>

namespace fulcrum::cpu {

/// A 64-byte aligned block from the CPU's caching allocator, given back when it goes out of scope. Taking one
/// in every call costs a lookup and keeps the bytes in the statistics. \throws OutOfMemoryError.
class Scratch {
  public:
    /// \param bytes may be zero; `data()` is then null.
    explicit Scratch(std::size_t bytes) : data_(bytes == 0 ? nullptr : source().allocate(bytes)) {}
    ~Scratch() { source().deallocate(data_); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    void* data() const { return data_; }
    /// The block as an array of `T`.
    template <class T>
    T* as() const {
        return static_cast<T*>(data_);
    }

  private:
    static CachingAllocator& source() { return runtime(kCpu).allocator(0); }

    void* data_;
};

}  // namespace fulcrum::cpu
