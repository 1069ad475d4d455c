#include "damacy/codec/shuffle.h"

#include <algorithm>
#include <cstring>

namespace damacy {

using detail::ByteSpan;
using detail::MutableByteSpan;

namespace detail {
namespace {

void copy_from(std::size_t position, ByteSpan in, MutableByteSpan out) noexcept {
  if (position < in.size()) std::memcpy(out.data() + position, in.data() + position, in.size() - position);
}

const ShuffleKernels& fastest() noexcept {
  static const ShuffleKernelList list = shuffle_kernels();
  return list.kernels[list.count - 1];
}

}  // namespace

void unshuffle_bytes_with(const ShuffleKernels& kernels, ByteSpan in, MutableByteSpan out,
                          std::size_t typesize) noexcept {
  const std::size_t elements = in.size() / typesize;
  kernels.interleave(in.data(), elements, elements, typesize, out.data());
  copy_from(elements * typesize, in, out);
}

// Bits to bytes for some elements, all bytes of them, then bytes to elements while they are in the cache.
void unshuffle_bits_with(const ShuffleKernels& kernels, ByteSpan in, MutableByteSpan out,
                         std::size_t typesize) noexcept {
  constexpr std::size_t kTileElements = 256;
  const std::size_t elements = in.size() / typesize;
  if (elements % 8 != 0) return copy_from(0, in, out);
  const std::size_t plane = elements / 8;
  if (typesize == 1) return kernels.join_bits(in.data(), plane, plane, out.data()), copy_from(elements, in, out);
  std::byte tile[kTileElements * 255];
  for (std::size_t i = 0; i < elements; i += kTileElements) {
    const std::size_t count = std::min(kTileElements, elements - i);
    for (std::size_t k = 0; k < typesize; ++k)
      kernels.join_bits(in.data() + k * 8 * plane + i / 8, plane, count / 8, tile + k * kTileElements);
    kernels.interleave(tile, kTileElements, count, typesize, out.data() + i * typesize);
  }
  copy_from(elements * typesize, in, out);
}

}  // namespace detail

void unshuffle_bytes(ByteSpan in, MutableByteSpan out, std::size_t typesize) noexcept {
  detail::unshuffle_bytes_with(detail::fastest(), in, out, typesize);
}

void unshuffle_bits(ByteSpan in, MutableByteSpan out, std::size_t typesize) noexcept {
  detail::unshuffle_bits_with(detail::fastest(), in, out, typesize);
}

}  // namespace damacy
