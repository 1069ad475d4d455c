// Estimates from earlier waves how much a wave may decode before its list of frames is full. A list is limited by
// memory and by the decoder, and the number of frames of a chunk is known only after it was read. Knows bytes and
// shares of a list; not frames. For one thread.
#pragma once

#include <algorithm>
#include <cstdint>

namespace damacy {

class FrameRoom {
 public:
  // Learns from a wave: its list was filled to `fill` (0 to 1) by chunks of `decoded_bytes`.
  void learn(double fill, std::uint64_t decoded_bytes) noexcept {
    const double seen = decoded_bytes > 0 ? fill / static_cast<double>(decoded_bytes) : 0;
    per_byte_ = std::max(seen, per_byte_ * kRemembered);
  }
  // Decoded bytes whose frames will fit one list.
  std::uint64_t bytes() const noexcept {
    const double most = per_byte_ > 0 ? kFilled / per_byte_ : kUnlimited;
    return most < kUnlimited ? static_cast<std::uint64_t>(most) : ~std::uint64_t{0};
  }

 private:
  static constexpr double kFilled = 0.9;        // chunks differ
  static constexpr double kRemembered = 0.875;  // of what earlier waves showed, after each wave
  static constexpr double kUnlimited = 1e18;
  double per_byte_ = 0;
};

}  // namespace damacy
