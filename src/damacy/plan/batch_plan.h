// Which chunks a batch needs, and which parts use each of them: pure arithmetic over boxes and grids. Every distinct
// chunk is listed once, with all parts that use it; chunks of one shard are consecutive. Reads nothing: the shard's
// index gives the location of a chunk's bytes later (read_plan.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "damacy/core/dims.h"
#include "damacy/plan/part_placing.h"
#include "damacy/zarr/array.h"
#include "damacy/zarr/metadata.h"

namespace damacy {

// One box of one stored array.
struct PlannedPart {
  std::shared_ptr<const Array> array;
  Box box;                                               // from 0 on where `placing` says which elements there are
  std::shared_ptr<const PartPlacing> placing = nullptr;  // null: the elements of the box, row-major, converted
  bool is_lost = false;                                  // of a sample that has failed already: nothing of it is read

  Dims extents() const noexcept { return box.extents(); }
};

struct PlannedShard {
  std::uint32_t array;  // into BatchPlan::arrays
  Dims shard;           // coordinates in the array's shard grid
  std::uint32_t first_chunk;
  std::uint32_t chunk_count;
  bool is_constant = false;  // stands for no object: its one chunk has the constants of borders
};

struct PlannedChunk {
  std::uint32_t index_in_shard;
  std::uint32_t first_use;
  std::uint32_t use_count;
  std::int64_t number;  // C order over the array's chunk grid; kConstants: of no chunk

  static constexpr std::int64_t kConstants = -1;
  bool is_constant() const noexcept { return number == kConstants; }
};

struct BatchPlan {
  std::vector<const Array*> arrays;  // distinct; owned by the parts
  std::vector<PlannedShard> shards;
  std::vector<PlannedChunk> chunks;  // by shard, then by index in the shard
  std::vector<std::uint32_t> uses;   // parts, ascending within a chunk

  std::size_t touches() const noexcept { return uses.size(); }
};

// How many chunks a box touches; saturates at INT64_MAX.
[[nodiscard]] std::int64_t count_chunks(const Array& array, const Box& box) noexcept;
[[nodiscard]] std::int64_t count_chunks(const PlannedPart& part) noexcept;
[[nodiscard]] Dims chunk_coordinates(const Array& array, std::int64_t number) noexcept;

// A batch that touches more chunks than `records` is planned in portions. The plans of all portions together list every
// chunk exactly once.
[[nodiscard]] std::uint32_t count_portions(std::span<const PlannedPart> parts, std::int64_t records) noexcept;
[[nodiscard]] BatchPlan plan_batch(std::span<const PlannedPart> parts, std::uint32_t portion = 0,
                                   std::uint32_t portions = 1);

}  // namespace damacy
