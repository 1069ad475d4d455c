// Which chunks a batch needs, and which rows use each of them: pure arithmetic over boxes and grids. Every distinct
// chunk is listed once, with all rows that use it; chunks of one shard are consecutive. Reads nothing: the shard's
// index gives the location of a chunk's bytes later (read_plan.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "damacy/core/dims.h"
#include "damacy/zarr/array.h"
#include "damacy/zarr/metadata.h"

namespace damacy {

struct PlannedSample {
  std::shared_ptr<const Array> array;
  Box box;
  std::shared_ptr<const void> origin = nullptr;  // the caller's, for the batch
};

struct PlannedShard {
  std::uint32_t array;  // into BatchPlan::arrays
  Dims shard;           // coordinates in the array's shard grid
  std::uint32_t first_chunk;
  std::uint32_t chunk_count;
};

struct PlannedChunk {
  std::uint32_t index_in_shard;
  std::uint32_t first_use;
  std::uint32_t use_count;
  std::int64_t number;  // C order over the array's chunk grid
};

struct BatchPlan {
  std::vector<const Array*> arrays;  // distinct; owned by the samples
  std::vector<PlannedShard> shards;
  std::vector<PlannedChunk> chunks;  // by shard, then by index in the shard
  std::vector<std::uint32_t> uses;   // rows, ascending within a chunk

  std::size_t touches() const noexcept { return uses.size(); }
};

// How many chunks a box touches; saturates at INT64_MAX.
[[nodiscard]] std::int64_t count_chunks(const Array& array, const Box& box) noexcept;
[[nodiscard]] Dims chunk_coordinates(const Array& array, std::int64_t number) noexcept;

// A batch that touches more chunks than `records` is planned in portions. The plans of all portions together list every
// chunk exactly once.
[[nodiscard]] std::uint32_t count_portions(std::span<const PlannedSample> samples, std::int64_t records) noexcept;
[[nodiscard]] BatchPlan plan_batch(std::span<const PlannedSample> samples, std::uint32_t portion = 0,
                                   std::uint32_t portions = 1);

}  // namespace damacy
