#pragma once

/// \file
/// Stores that go past the caches: for results too large to be found there by whoever reads them next, they
/// spare the read that an ordinary store makes first.

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace fulcrum::cpu {

/// Bytes that `stream_copy` moves at a time.
inline constexpr std::size_t kStreamUnit = 64;

/// Copies whole units from a staging buffer. \param destination 64-byte aligned. \param source 64-byte
/// aligned. \param bytes a multiple of `kStreamUnit`.
inline void stream_copy(void* destination, const void* source, std::size_t bytes) {
#if defined(__AVX512F__)
    auto* to = static_cast<__m512i*>(destination);
    const auto* from = static_cast<const __m512i*>(source);
    for (std::size_t i = 0; i < bytes / sizeof(__m512i); ++i)
        _mm512_stream_si512(to + i, _mm512_load_si512(from + i));
#elif defined(__SSE2__)
    auto* to = static_cast<__m128i*>(destination);
    const auto* from = static_cast<const __m128i*>(source);
    for (std::size_t i = 0; i < bytes / sizeof(__m128i); ++i)
        _mm_stream_si128(to + i, _mm_load_si128(from + i));
#else
    std::memcpy(destination, source, bytes);
#endif
}

/// Makes this thread's streamed stores visible to others; call it before the parallel region ends.
inline void stream_fence() {
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

/// True when rows of `row_bytes` bytes from `data` on can be streamed one by one.
inline bool can_stream(const void* data, std::size_t row_bytes) {
    return reinterpret_cast<std::uintptr_t>(data) % kStreamUnit == 0 && row_bytes % kStreamUnit == 0;
}

}  // namespace fulcrum::cpu
