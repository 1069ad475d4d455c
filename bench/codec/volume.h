// Test data for decoders, computed from seeds: 16-bit volumes like those of the benchmark scenarios, cut into chunks.
// Knows no codec.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "crew.h"

namespace damacy::bench {

using Bytes = std::vector<std::byte>;

// `e50`: half zeros, half uniform random values. `micro`: a smooth random field with photon and camera noise.
enum class Content { e50, micro };

struct Volume {
  static constexpr std::size_t kDepth = 128, kHeight = 512, kWidth = 512;
  std::vector<std::uint16_t> elements;  // C order

  [[nodiscard]] std::uint16_t at(std::size_t z, std::size_t y, std::size_t x) const {
    return elements[(z * kHeight + y) * kWidth + x];
  }
};

[[nodiscard]] Volume make_volume(Content content, Crew& crew);

struct ChunkShape {
  std::size_t depth, height, width;
  [[nodiscard]] std::size_t bytes() const { return depth * height * width * 2; }
};

// All whole chunks of the volume, byte-shuffled if requested.
[[nodiscard]] std::vector<Bytes> cut(const Volume& volume, const ChunkShape& shape, bool shuffle, Crew& crew);

}  // namespace damacy::bench
