// How much a catalog may keep, and the counts of its hits. Numbers only.
#pragma once

#include <cstddef>
#include <cstdint>

namespace damacy {

struct CatalogLimits {
  std::size_t arrays = 64;
  std::size_t shards = 256;
  std::uint64_t bytes = 256 << 20;
  std::size_t open_files = 64;
};

struct CatalogCounts {
  std::uint64_t array_hits = 0, array_misses = 0, shard_hits = 0, shard_misses = 0;
};

}  // namespace damacy
