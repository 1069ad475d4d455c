// Names one version of one chunk. Knows neither arrays nor objects: the caller chooses the numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "damacy/core/mixed.h"

namespace damacy {

struct ChunkKey {
  std::array<std::uint64_t, 2> array{};   // a hash of all that identifies an array, of 128 bits
  std::array<std::uint64_t, 4> object{};  // the stamp of the object that holds the chunk
  std::int64_t chunk = 0;                 // its number in the array
  friend bool operator==(const ChunkKey&, const ChunkKey&) = default;
};

constexpr std::uint64_t hash_of(const ChunkKey& key) noexcept {
  std::uint64_t hash = mixed(static_cast<std::uint64_t>(key.chunk) + 0x9e3779b97f4a7c15u);
  for (const std::uint64_t word : key.array) hash = mixed(hash + word);
  for (const std::uint64_t word : key.object) hash = mixed(hash + word);
  return hash;
}

}  // namespace damacy
