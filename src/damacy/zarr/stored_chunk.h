// Where an encoded chunk is in its opened shard. Knows shards and their indices; reads nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "damacy/zarr/catalog.h"

namespace damacy {

struct StoredChunk {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  bool missing = false;
};

// Throws Error (short-read, size or limit, with the byte range) when an unsharded object cannot be the array's chunk.
[[nodiscard]] StoredChunk find_stored_chunk(const Array& array, const Shard& shard, std::size_t index_in_shard);

}  // namespace damacy
