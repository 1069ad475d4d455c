#include "damacy/core/sha256.h"

#include <bit>

#include "damacy/core/checked.h"

namespace damacy {
namespace {

constexpr std::size_t kBlockBytes = 64;

// FIPS 180-4, 4.2.2: the first bits of the cube roots of the first 64 primes.
constexpr std::uint32_t kRounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

using State = std::array<std::uint32_t, 8>;

void add_block(State& state, const char* block) {
  std::uint32_t w[64];
  for (std::size_t i = 0; i < 16; ++i) {
    w[i] = 0;
    for (std::size_t k = 0; k < 4; ++k) w[i] = w[i] << 8 | static_cast<unsigned char>(block[4 * i + k]);
  }
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const std::uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRounds[i] + w[i];
    const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const State rounds{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < state.size(); ++i) state[i] += rounds[i];
}

}  // namespace

Sha256 sha256(std::string_view message) noexcept {
  State state{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::size_t done = 0;
  for (; message.size() - done >= kBlockBytes; done += kBlockBytes) add_block(state, message.data() + done);
  std::array<char, 2 * kBlockBytes> end{};  // the rest, a one bit, zeros, and the number of bits
  const std::size_t rest = message.copy(end.data(), kBlockBytes, done);
  end[rest] = '\x80';
  const std::size_t size = round_up(rest + 1 + sizeof(std::uint64_t), kBlockBytes);
  std::uint64_t bits = std::uint64_t{message.size()} * 8;
  for (std::size_t at = size; bits != 0; bits >>= 8) end[--at] = static_cast<char>(bits & 0xff);
  for (std::size_t at = 0; at < size; at += kBlockBytes) add_block(state, end.data() + at);
  Sha256 out;
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<std::uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)) & 0xff);
  return out;
}

Sha256 hmac_sha256(std::string_view key, std::string_view message) {
  std::string block(key);
  if (block.size() > kBlockBytes) block = bytes_of(sha256(key));
  block.resize(kBlockBytes, '\0');
  std::string inner = block, outer = block;
  for (char& c : inner) c = static_cast<char>(c ^ 0x36);
  for (char& c : outer) c = static_cast<char>(c ^ 0x5c);
  inner += message;
  const Sha256 first = sha256(inner);
  outer += bytes_of(first);
  return sha256(outer);
}

std::string hex(const Sha256& digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const std::uint8_t byte : digest) out += {kDigits[byte >> 4], kDigits[byte & 15]};
  return out;
}

std::string_view bytes_of(const Sha256& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

}  // namespace damacy
