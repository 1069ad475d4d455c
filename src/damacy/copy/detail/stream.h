// Non-temporal stores, for outputs that would only evict other data from the cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#ifdef __x86_64__
#include <emmintrin.h>
#endif

namespace damacy::copy_detail {

inline constexpr std::size_t kLine = 64;

#ifdef __x86_64__

// Less than a line, as two pieces of one size that may overlap.
inline void copy_end(std::byte* dst, const std::byte* src, std::size_t bytes) {
  const auto pieces = [&]<std::size_t kBytes>(std::integral_constant<std::size_t, kBytes>) {
    unsigned char low[kBytes], high[kBytes];
    std::memcpy(low, src, kBytes);
    std::memcpy(high, src + bytes - kBytes, kBytes);
    std::memcpy(dst, low, kBytes);
    std::memcpy(dst + bytes - kBytes, high, kBytes);
  };
  if (bytes >= 32)
    pieces(std::integral_constant<std::size_t, 32>{});
  else if (bytes >= 16)
    pieces(std::integral_constant<std::size_t, 16>{});
  else if (bytes >= 8)
    pieces(std::integral_constant<std::size_t, 8>{});
  else if (bytes >= 4)
    pieces(std::integral_constant<std::size_t, 4>{});
  else if (bytes >= 2)
    pieces(std::integral_constant<std::size_t, 2>{});
  else if (bytes == 1)
    *dst = *src;
}

// Whole lines bypass the cache; partial lines at both ends use it.
inline void stream_bytes(std::byte* dst, const std::byte* src, std::size_t bytes) {
  const std::size_t head = (0 - reinterpret_cast<std::uintptr_t>(dst)) % kLine;
  if (bytes < head + kLine) {
    std::memcpy(dst, src, bytes);
    return;
  }
  copy_end(dst, src, head);
  std::size_t at = head;
  for (; at + kLine <= bytes; at += kLine)
    for (std::size_t i = 0; i < kLine; i += 16)
      _mm_stream_si128(reinterpret_cast<__m128i*>(dst + at + i),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + at + i)));
  copy_end(dst + at, src + at, bytes - at);
}

// Other threads see the non-temporal stores before later stores of this thread.
inline void end_stream() {
  _mm_sfence();
}

#else

inline void stream_bytes(std::byte* dst, const std::byte* src, std::size_t bytes) {
  std::memcpy(dst, src, bytes);
}
inline void end_stream() {}

#endif

}  // namespace damacy::copy_detail
