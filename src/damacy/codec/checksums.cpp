#include "damacy/codec/checksums.h"

#include <isa-l/crc.h>
#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <bit>

namespace damacy {

using detail::ByteSpan;

namespace {

const unsigned char* unsigned_bytes(detail::ByteSpan bytes) noexcept {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

// Modulo 65535, where a sum that is not zero never becomes zero: 65535 stays.
std::uint64_t folded(std::uint64_t sum) noexcept {
  return sum == 0 ? 0 : (sum - 1) % 65535 + 1;
}

// The 96 bits that lookup3 keeps.
struct Lookup3 {
  std::uint32_t a, b, c;

  void add(ByteSpan bytes) noexcept {  // at most 12, the rest counts as zeros
    const auto word = [&](std::size_t at) {
      const std::size_t begin = std::min(at, bytes.size());
      const std::size_t count = std::min<std::size_t>(4, bytes.size() - begin);
      return static_cast<std::uint32_t>(detail::read_le(bytes.data() + begin, static_cast<unsigned>(count)));
    };
    a += word(0);
    b += word(4);
    c += word(8);
  }

  static void mix_one(std::uint32_t& x, std::uint32_t& y, std::uint32_t& z, int bits) noexcept {
    x -= z;
    x ^= std::rotl(z, bits);
    z += y;
  }
  void mix() noexcept {
    mix_one(a, b, c, 4);
    mix_one(b, c, a, 6);
    mix_one(c, a, b, 8);
    mix_one(a, b, c, 16);
    mix_one(b, c, a, 19);
    mix_one(c, a, b, 4);
  }

  static void finish_one(std::uint32_t& x, std::uint32_t y, int bits) noexcept {
    x ^= y;
    x -= std::rotl(y, bits);
  }
  void finish() noexcept {
    finish_one(c, b, 14);
    finish_one(a, c, 11);
    finish_one(b, a, 25);
    finish_one(c, b, 16);
    finish_one(a, c, 4);
    finish_one(b, a, 14);
    finish_one(c, b, 24);
  }
};

}  // namespace

std::uint32_t crc32(detail::ByteSpan bytes) noexcept {
  return crc32_gzip_refl(0, unsigned_bytes(bytes), bytes.size());
}

std::uint32_t adler32(detail::ByteSpan bytes) noexcept {
  return isal_adler32(1, unsigned_bytes(bytes), bytes.size());
}

std::uint32_t fletcher32(detail::ByteSpan bytes) noexcept {
  constexpr std::size_t kStep = std::size_t{1} << 20;  // bytes whose sums fit in 64 bits
  std::uint64_t first = 0, second = 0;
  while (!bytes.empty()) {
    const ByteSpan step = bytes.first(std::min(bytes.size(), kStep));
    for (std::size_t i = 0; i < step.size(); i += 2) {
      const auto low = i + 1 < step.size() ? static_cast<std::uint64_t>(step[i + 1]) : 0;
      first += static_cast<std::uint64_t>(step[i]) << 8 | low;
      second += first;
    }
    first = folded(first);
    second = folded(second);
    bytes = bytes.subspan(step.size());
  }
  return static_cast<std::uint32_t>(second << 16 | first);
}

std::uint32_t lookup3(detail::ByteSpan bytes, std::uint32_t seed) noexcept {
  constexpr std::size_t kStep = 12;
  const std::uint32_t begin = 0xdeadbeef + static_cast<std::uint32_t>(bytes.size()) + seed;
  Lookup3 state{begin, begin, begin};
  if (bytes.empty()) return state.c;
  while (bytes.size() > kStep) {
    state.add(bytes.first(kStep));
    state.mix();
    bytes = bytes.subspan(kStep);
  }
  state.add(bytes);
  state.finish();
  return state.c;
}

}  // namespace damacy
