// Undoes blosc's two filters on one block. Pure; knows no container. A filtered block of T-byte elements has T planes
// of m bytes each, followed by the unfiltered bytes of an incomplete element. The planes need not be contiguous: those
// of a block with T streams can be used in place.
#pragma once

#include <cstddef>
#include <span>

#include "damacy/codec/bytes.h"
#include "damacy/codec/shuffle_kernels.h"

namespace damacy {

enum class ShuffleFilter : std::uint8_t { bytes, bits };

// Pointers to T planes, T from 1 to 255.
using Planes = std::span<const std::byte* const>;

// Writes m * T bytes. `bytes`: out[i * T + k] = planes[k][i]. `bits`: bit b of byte k of element i is bit i mod 8 of
// planes[k][b * m / 8 + i / 8], but if m is no multiple of 8 the planes are copied as they are, one behind the other.
void unshuffle(ShuffleFilter filter, Planes planes, std::size_t m, std::byte* out) noexcept;

// A whole block, m = floor(size / T). `in` and `out` have one size and do not overlap.
void unshuffle_block(ShuffleFilter filter, std::size_t typesize, detail::ByteSpan in,
                     detail::MutableByteSpan out) noexcept;

namespace detail {
void unshuffle_with(const ShuffleKernels& kernels, ShuffleFilter filter, Planes planes, std::size_t m,
                    std::byte* out) noexcept;
}  // namespace detail

}  // namespace damacy
