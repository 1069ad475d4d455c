// Un-shuffling against the two sentences that define it, for every typesize and around every boundary.
#include "damacy/codec/shuffle.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace damacy {
namespace {

using Bytes = std::vector<std::byte>;
using Unshuffle = void (*)(const detail::ShuffleKernels&, detail::ByteSpan, detail::MutableByteSpan, std::size_t);

Bytes noise(std::size_t size) {
  std::mt19937 random(static_cast<unsigned>(size));
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// The last bytes that make no element stay where they are, in both filters.
Bytes bytes_as_defined(const Bytes& in, std::size_t typesize) {
  const std::size_t m = in.size() / typesize;
  Bytes out = in;
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t k = 0; k < typesize; ++k) out[i * typesize + k] = in[k * m + i];
  return out;
}

Bytes bits_as_defined(const Bytes& in, std::size_t typesize) {
  const std::size_t m = in.size() / typesize;
  Bytes out = in;
  if (m % 8 != 0) return out;
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t k = 0; k < typesize; ++k) {
      unsigned byte = 0;
      for (std::size_t b = 0; b < 8; ++b)
        byte |= (static_cast<unsigned>(in[(k * 8 + b) * (m / 8) + i / 8]) >> (i % 8) & 1u) << b;
      out[i * typesize + k] = static_cast<std::byte>(byte);
    }
  return out;
}

void expect_equal_for_every_kernel(const Bytes& in, std::size_t typesize, Unshuffle unshuffle, const Bytes& expected) {
  const detail::ShuffleKernelList list = detail::shuffle_kernels();
  for (std::size_t kernel = 0; kernel < list.count; ++kernel) {
    Bytes out(in.size(), std::byte{0xaa});
    unshuffle(list.kernels[kernel], in, out, typesize);
    ASSERT_EQ(out, expected) << "kernel " << kernel << " typesize " << typesize << " size " << in.size();
  }
}

const std::vector<std::size_t> kElements{0, 1, 7, 8, 9, 31, 32, 33, 64, 255, 256, 257, 264, 512, 520, 1000, 1024};

TEST(Shuffle, bytes_are_unshuffled_as_defined) {
  for (std::size_t typesize = 1; typesize <= 18; ++typesize)
    for (const std::size_t elements : kElements)
      for (const std::size_t rest : {std::size_t{0}, std::size_t{1}, typesize - 1}) {
        const Bytes in = noise(elements * typesize + rest);
        expect_equal_for_every_kernel(in, typesize, detail::unshuffle_bytes_with, bytes_as_defined(in, typesize));
      }
}

TEST(Shuffle, bits_are_unshuffled_as_defined) {
  for (std::size_t typesize = 1; typesize <= 18; ++typesize)
    for (const std::size_t elements : kElements)
      for (const std::size_t rest : {std::size_t{0}, std::size_t{1}, typesize - 1}) {
        const Bytes in = noise(elements * typesize + rest);
        expect_equal_for_every_kernel(in, typesize, detail::unshuffle_bits_with, bits_as_defined(in, typesize));
      }
}

TEST(Shuffle, the_largest_typesize_is_unshuffled_as_defined) {
  const Bytes in = noise(255 * 272 + 3);
  expect_equal_for_every_kernel(in, 255, detail::unshuffle_bytes_with, bytes_as_defined(in, 255));
  expect_equal_for_every_kernel(in, 255, detail::unshuffle_bits_with, bits_as_defined(in, 255));
}

TEST(Shuffle, the_chosen_kernels_agree_with_the_definition) {
  const Bytes in = noise(4 * 4096 + 2);
  Bytes out(in.size(), std::byte{0xaa});
  unshuffle_bytes(in, out, 4);
  EXPECT_EQ(out, bytes_as_defined(in, 4));
  unshuffle_bits(in, out, 4);
  EXPECT_EQ(out, bits_as_defined(in, 4));
}

}  // namespace
}  // namespace damacy
