// For tests: random numbers of a case, which is known by its seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>

namespace damacy::testing {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed * 0x9e3779b97f4a7c15u + 1) {}
  std::int64_t from(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool one_in(int n) { return from(1, n) == 1; }
  std::byte byte() { return static_cast<std::byte>(engine_() >> 32); }

 private:
  std::mt19937_64 engine_;
};

}  // namespace damacy::testing
