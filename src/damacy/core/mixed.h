// Spreads numbers for hashes.
#pragma once

#include <cstdint>

namespace damacy {

// A bijection that spreads its input over all bits (splitmix64).
constexpr std::uint64_t mixed(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace damacy
