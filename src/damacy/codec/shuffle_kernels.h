// The two inner loops of un-shuffling, for the instructions at hand. The caller has checked every size.
#pragma once

#include <cstddef>

namespace damacy::detail {

struct ShuffleKernels {
  // out[i * typesize + k] = planes[k][i] for i < count, k < typesize
  void (*interleave)(const std::byte* const* planes, std::size_t count, std::size_t typesize, std::byte* out) noexcept;
  // Bit b of out[8 * j + i] is bit i of planes[b * stride + j], for j < bytes.
  void (*join_bits)(const std::byte* planes, std::size_t stride, std::size_t bytes, std::byte* out) noexcept;
};

// From the plain ones, which run everywhere, to the fastest this processor can run, which is the last.
struct ShuffleKernelList {
  ShuffleKernels kernels[3];
  std::size_t count;
};
ShuffleKernelList shuffle_kernels() noexcept;

}  // namespace damacy::detail
