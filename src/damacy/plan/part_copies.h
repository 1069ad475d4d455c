// What a part of a batch needs of a chunk, and the copies that bring it to its row: of a box, or as a placing says.
// Pure: knows plans and where rows lie; not where chunks are stored, nor who wants them.
#pragma once

#include <cstdint>
#include <functional>

#include "damacy/codec/ranges.h"
#include "damacy/copy/block.h"
#include "damacy/core/dims.h"
#include "damacy/core/dtype.h"
#include "damacy/plan/batch_plan.h"
#include "damacy/plan/destination.h"
#include "damacy/zarr/array.h"

namespace damacy {

// A chunk of a plan, in its array.
struct ChunkInArray {
  ChunkInArray(const Array& of, std::int64_t number);

  const Array& array;
  bool is_constant;  // PlannedChunk::kConstants: it has no coordinates and no box
  Dims at{};
  Box box{};
};

// The byte interval of the decoded chunk that the part needs, and its elements. Not of constants.
[[nodiscard]] ByteRange bytes_needed(const PlannedPart& part, const ChunkInArray& chunk) noexcept;
[[nodiscard]] std::int64_t count_elements(const PlannedPart& part, const ChunkInArray& chunk) noexcept;

struct PartMemory {
  BoxMemory row;
  Dtype dtype;         // of the row
  bool fills = false;  // with one element, in this machine's byte order, in place of the decoded chunk
};
// Normalised; as many as count_copies().
void for_copies(const PlannedPart& part, const ChunkInArray& chunk, const PartMemory& to,
                const std::function<void(const BlockCopy&)>& visit);
[[nodiscard]] std::int64_t count_copies(const PlannedPart& part, const ChunkInArray& chunk) noexcept;

}  // namespace damacy
