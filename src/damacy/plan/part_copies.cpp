#include "damacy/plan/part_copies.h"

#include "damacy/zarr/metadata.h"

namespace damacy {

ChunkInArray::ChunkInArray(const Array& of, std::int64_t number)
    : array(of), is_constant(number == PlannedChunk::kConstants) {
  if (is_constant) return;
  at = chunk_coordinates(array, number);
  box = array.box_of_chunk(at);
}

ByteRange bytes_needed(const PlannedPart& part, const ChunkInArray& chunk) noexcept {
  if (part.placing != nullptr) return part.placing->bytes_of(chunk.at, chunk.array.chunk_strides());
  return bytes_of(chunk.array, chunk.box, intersect(part.box, chunk.box));
}

std::int64_t count_elements(const PlannedPart& part, const ChunkInArray& chunk) noexcept {
  if (part.placing != nullptr) return part.placing->elements(chunk.at);
  return *product(intersect(part.box, chunk.box).extents().span());
}

std::int64_t count_copies(const PlannedPart& part, const ChunkInArray& chunk) noexcept {
  if (part.placing == nullptr) return 1;
  return chunk.is_constant ? part.placing->constant_copies() : part.placing->copies(chunk.at);
}

void for_copies(const PlannedPart& part, const ChunkInArray& chunk, const PartMemory& to,
                const std::function<void(const BlockCopy&)>& visit) {
  const Array& array = chunk.array;
  const bool swaps = !to.fills && array.metadata().swap_bytes;
  if (const PartPlacing* const placing = part.placing.get()) {
    if (chunk.is_constant) return placing->for_constants(to.row.begin, visit);
    const Dims& strides = to.fills ? Dims(chunk.at.size(), 0) : array.chunk_strides();
    return placing->for_copies(chunk.at, strides, swaps, to.row.begin, visit);
  }
  const CopyOp op{array.dtype(), to.dtype, swaps};
  const Box used = intersect(part.box, chunk.box);
  visit(to.fills ? fill_of_box(used, to.row, op) : copy_of_box(array, chunk.box, used, to.row, op));
}

}  // namespace damacy
