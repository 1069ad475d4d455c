// Undoes blosc's two filters on one block (formats.md 7.2, rule 7). Pure; knows no container.
// `typesize` is T, 1 to 255; m = floor(size / T); the last size - m * T bytes are copied as they are. `in` and `out`
// have one size and do not overlap.
#pragma once

#include <cstddef>

#include "damacy/codec/detail/bytes.h"
#include "damacy/codec/detail/shuffle_kernels.h"

namespace damacy {

// out[i * T + k] = in[k * m + i]
void unshuffle_bytes(detail::ByteSpan in, detail::MutableByteSpan out, std::size_t typesize) noexcept;

// Bit b of byte k of element i is bit i mod 8 of byte (k * 8 + b) * (m / 8) + i / 8. If m is no multiple of 8, a copy.
void unshuffle_bits(detail::ByteSpan in, detail::MutableByteSpan out, std::size_t typesize) noexcept;

namespace detail {
void unshuffle_bytes_with(const ShuffleKernels& kernels, ByteSpan in, MutableByteSpan out,
                          std::size_t typesize) noexcept;
void unshuffle_bits_with(const ShuffleKernels& kernels, ByteSpan in, MutableByteSpan out,
                         std::size_t typesize) noexcept;
}  // namespace detail

}  // namespace damacy
