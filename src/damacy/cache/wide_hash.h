// Hashes words and texts to 128 bits, which no two inputs share by chance. Not for secrets, nor for input that is made
// to collide. All processes get the same.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "damacy/core/mixed.h"

namespace damacy {

// Two independent hashes.
class WideHash {
 public:
  void add(std::uint64_t word) noexcept {
    low_ = mixed(low_ * 3 + word + 0x9e3779b97f4a7c15u);
    high_ = mixed(high_ * 5 ^ (word + 0xc2b2ae3d27d4eb4fu));
  }
  void add(std::span<const std::uint64_t> words) noexcept {
    for (const std::uint64_t word : words) add(word);
  }
  void add(std::string_view bytes) noexcept {
    add(bytes.size());
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      for (const char c : bytes.substr(at, sizeof word)) word = word << 8 | static_cast<unsigned char>(c);
      add(word);
    }
  }
  std::array<std::uint64_t, 2> value() const noexcept { return {low_, high_}; }

 private:
  std::uint64_t low_ = 1, high_ = 2;
};

}  // namespace damacy
