// Un-shuffling against the two sentences that define it, for every typesize and around every boundary.
#include "damacy/codec/shuffle.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace damacy {
namespace {

using Bytes = std::vector<std::byte>;

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

void expect_as_defined(const Bytes& in, std::size_t typesize) {
  for (const ShuffleFilter filter : {ShuffleFilter::bytes, ShuffleFilter::bits}) {
    const Bytes expected =
        filter == ShuffleFilter::bytes ? bytes_as_defined(in, typesize) : bits_as_defined(in, typesize);
    Bytes out(in.size(), std::byte{0xaa});
    unshuffle_block(filter, typesize, in, out);
    ASSERT_EQ(out, expected) << "typesize " << typesize << " size " << in.size();
  }
}

// The planes lie apart, and last first, as the streams of a block may.
void expect_equal_for_every_kernel(const Bytes& in, std::size_t typesize) {
  const std::size_t m = in.size() / typesize;
  std::vector<Bytes> copies(typesize);
  std::vector<const std::byte*> planes(typesize);
  for (std::size_t k = typesize; k-- > 0;) {
    copies[k].assign(in.begin() + static_cast<std::ptrdiff_t>(k * m),
                     in.begin() + static_cast<std::ptrdiff_t>((k + 1) * m));
    planes[k] = copies[k].data();
  }
  const detail::ShuffleKernelList list = detail::shuffle_kernels();
  for (std::size_t kernel = 0; kernel < list.count; ++kernel)
    for (const ShuffleFilter filter : {ShuffleFilter::bytes, ShuffleFilter::bits}) {
      const Bytes expected =
          filter == ShuffleFilter::bytes ? bytes_as_defined(in, typesize) : bits_as_defined(in, typesize);
      Bytes out(in.size(), std::byte{0xaa});
      detail::unshuffle_with(list.kernels[kernel], filter, planes, m, out.data());
      ASSERT_EQ(out, expected) << "kernel " << kernel << " typesize " << typesize << " elements " << m;
    }
}

const std::vector<std::size_t> kElements{0, 1, 7, 8, 9, 31, 32, 33, 64, 255, 256, 257, 264, 512, 520, 1000, 1024};

TEST(Shuffle, a_block_is_unshuffled_as_defined) {
  for (std::size_t typesize = 1; typesize <= 18; ++typesize)
    for (const std::size_t elements : kElements)
      for (const std::size_t rest : {std::size_t{0}, std::size_t{1}, typesize - 1})
        expect_as_defined(noise(elements * typesize + rest % typesize), typesize);
}

TEST(Shuffle, every_kernel_gives_what_is_defined) {
  for (std::size_t typesize = 1; typesize <= 18; ++typesize)
    for (const std::size_t elements : kElements) expect_equal_for_every_kernel(noise(elements * typesize), typesize);
}

TEST(Shuffle, the_largest_typesize_is_unshuffled_as_defined) {
  expect_as_defined(noise(255 * 272 + 3), 255);
  expect_equal_for_every_kernel(noise(255 * 272), 255);
}

TEST(Shuffle, every_processor_has_the_plain_kernels) {
  EXPECT_GE(detail::shuffle_kernels().count, 1u);
}

}  // namespace
}  // namespace damacy
