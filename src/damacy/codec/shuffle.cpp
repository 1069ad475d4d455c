#include "damacy/codec/shuffle.h"

#include <cstring>

namespace damacy {

using detail::ByteSpan;
using detail::MutableByteSpan;

namespace detail {
namespace {

void copy_tail(ByteSpan in, MutableByteSpan out, std::size_t from) noexcept {
  if (from < in.size()) std::memcpy(out.data() + from, in.data() + from, in.size() - from);
}

}  // namespace

void unshuffle_bytes_plainly(ByteSpan in, MutableByteSpan out, std::size_t typesize) noexcept {
  const std::size_t m = in.size() / typesize;
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t k = 0; k < typesize; ++k) out[i * typesize + k] = in[k * m + i];
  copy_tail(in, out, m * typesize);
}

void unshuffle_bits_plainly(ByteSpan in, MutableByteSpan out, std::size_t typesize) noexcept {
  const std::size_t m = in.size() / typesize;
  if (m % 8 != 0) return copy_tail(in, out, 0);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t k = 0; k < typesize; ++k) {
      unsigned byte = 0;
      for (std::size_t b = 0; b < 8; ++b) {
        const auto packed = static_cast<unsigned>(in[(k * 8 + b) * (m / 8) + i / 8]);
        byte |= ((packed >> (i % 8)) & 1u) << b;
      }
      out[i * typesize + k] = static_cast<std::byte>(byte);
    }
  copy_tail(in, out, m * typesize);
}

}  // namespace detail

void unshuffle_bytes(ByteSpan in, MutableByteSpan out, std::size_t typesize) noexcept {
  detail::unshuffle_bytes_plainly(in, out, typesize);
}

void unshuffle_bits(ByteSpan in, MutableByteSpan out, std::size_t typesize) noexcept {
  detail::unshuffle_bits_plainly(in, out, typesize);
}

}  // namespace damacy
