// Names one version of one chunk, or of another piece of an object, by 128 bits of a hash of all that identifies it.
// Knows neither arrays nor objects: the caller chooses what is hashed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "damacy/cache/wide_hash.h"
#include "damacy/core/mixed.h"

namespace damacy {

struct ChunkKey {
  std::array<std::uint64_t, 2> words{};
  friend bool operator==(const ChunkKey&, const ChunkKey&) = default;
};

// In memory; a disk tier's keys are of a SHA-256. `version`: of what identifies an array and one version of the object
// that holds the chunk. `number`: of the chunk, in one of the two.
[[nodiscard]] inline ChunkKey key_of_chunk(WideHash version, std::int64_t number) noexcept {
  version.add(static_cast<std::uint64_t>(number));
  return {version.value()};
}

constexpr std::uint64_t hash_of(const ChunkKey& key) noexcept {
  return mixed(key.words[0] ^ key.words[1]);
}

struct ChunkKeyHash {
  std::size_t operator()(const ChunkKey& key) const noexcept { return hash_of(key); }
};

}  // namespace damacy
