#include "damacy/codec/shuffle.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace damacy {

using detail::ByteSpan;
using detail::MutableByteSpan;

namespace detail {
namespace {

constexpr std::size_t kTypesizeMax = 255;

const ShuffleKernels& fastest() noexcept {
  static const ShuffleKernelList list = shuffle_kernels();
  return list.kernels[list.count - 1];
}

// Bits to bytes for some elements, all bytes of them, then bytes to elements while they are in the cache.
void unshuffle_bits_with(const ShuffleKernels& kernels, Planes planes, std::size_t m, std::byte* out) noexcept {
  constexpr std::size_t kTileElements = 256;
  const std::size_t typesize = planes.size();
  if (typesize == 1) return kernels.join_bits(planes[0], m / 8, m / 8, out);
  std::byte tile[kTileElements * kTypesizeMax];
  std::array<const std::byte*, kTypesizeMax> tile_planes;
  for (std::size_t k = 0; k < typesize; ++k) tile_planes[k] = tile + k * kTileElements;
  for (std::size_t i = 0; i < m; i += kTileElements) {
    const std::size_t count = std::min(kTileElements, m - i);
    for (std::size_t k = 0; k < typesize; ++k)
      kernels.join_bits(planes[k] + i / 8, m / 8, count / 8, tile + k * kTileElements);
    kernels.interleave(tile_planes.data(), count, typesize, out + i * typesize);
  }
}

}  // namespace

void unshuffle_with(const ShuffleKernels& kernels, ShuffleFilter filter, Planes planes, std::size_t m,
                    std::byte* out) noexcept {
  if (filter == ShuffleFilter::bytes) return kernels.interleave(planes.data(), m, planes.size(), out);
  if (m % 8 == 0) return unshuffle_bits_with(kernels, planes, m, out);
  for (std::size_t k = 0; k < planes.size(); ++k) std::memcpy(out + k * m, planes[k], m);
}

}  // namespace detail

void unshuffle(ShuffleFilter filter, Planes planes, std::size_t m, std::byte* out) noexcept {
  detail::unshuffle_with(detail::fastest(), filter, planes, m, out);
}

void unshuffle_block(ShuffleFilter filter, std::size_t typesize, ByteSpan in, MutableByteSpan out) noexcept {
  const std::size_t m = in.size() / typesize;
  std::array<const std::byte*, detail::kTypesizeMax> planes;
  for (std::size_t k = 0; k < typesize; ++k) planes[k] = in.data() + k * m;
  unshuffle(filter, {planes.data(), typesize}, m, out.data());
  const std::size_t tail = m * typesize;
  if (tail < in.size()) std::memcpy(out.data() + tail, in.data() + tail, in.size() - tail);
}

}  // namespace damacy
