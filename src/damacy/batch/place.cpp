#include "damacy/batch/place.h"

#include <algorithm>

#include "damacy/batch/batch_job.h"
#include "damacy/copy/block_copy.h"

namespace damacy {

Box wanted(const BatchJob& job, std::size_t row, const Box& chunk) {
  return intersect(job.rows()[row].box, chunk);
}

Box relative_to(Box part, const Box& whole) noexcept {
  for (std::size_t i = 0; i < part.rank(); ++i) {
    part.start[i] -= whole.start[i];
    part.stop[i] -= whole.start[i];
  }
  return part;
}

ByteRange bytes_of(const Array& array, const Box& chunk, const Box& part) noexcept {
  const Dims& strides = array.chunk_strides();
  std::int64_t first = 0;
  std::int64_t last = 0;
  for (std::size_t i = 0; i < part.rank(); ++i) {
    first += (part.start[i] - chunk.start[i]) * strides[i];
    last += (part.stop[i] - 1 - chunk.start[i]) * strides[i];
  }
  return {static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(last) + size_of(array.metadata().dtype)};
}

void merge_ranges(std::vector<ByteRange>& ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; });
  std::size_t kept = 0;
  for (const ByteRange& range : ranges) {
    if (kept > 0 && range.begin <= ranges[kept - 1].end)
      ranges[kept - 1].end = std::max(ranges[kept - 1].end, range.end);
    else
      ranges[kept++] = range;
  }
  ranges.resize(kept);
}

void crop_chunk(const Array& array, const Box& chunk, const Box& part, std::span<const std::byte> decoded,
                std::span<std::byte> out) {
  const Dtype dtype = array.metadata().dtype;
  const Dims strides = row_major_strides(part.extents());
  BlockCopy copy;
  copy.op = {dtype, dtype, false};
  // bool to bool would make ones of other bytes: crops keep the bits.
  if (dtype == Dtype::boolean) copy.op = {Dtype::u8, Dtype::u8, false};
  copy.rank = static_cast<std::uint32_t>(part.rank());
  for (std::size_t i = 0; i < part.rank(); ++i) {
    copy.axes[i] = {part.stop[i] - part.start[i], array.chunk_strides()[i],
                    strides[i] * static_cast<std::int64_t>(size_of(dtype))};
    copy.src_offset += (part.start[i] - chunk.start[i]) * array.chunk_strides()[i];
  }
  normalise(copy);
  run_block_copy(copy, decoded, out);
}

void place_chunk(BatchJob& job, std::size_t row, const Box& chunk, const Box& part,
                 std::span<const std::byte> decoded) {
  const Array& array = *job.rows()[row].array;
  const Box& box = job.rows()[row].box;
  BlockCopy copy;
  copy.op = {array.metadata().dtype, job.shape().dtype, array.metadata().swap_bytes};
  copy.rank = static_cast<std::uint32_t>(part.rank());
  std::int64_t elements = 1;
  for (std::size_t i = 0; i < part.rank(); ++i) {
    const std::int64_t extent = part.stop[i] - part.start[i];
    copy.axes[i] = {extent, array.chunk_strides()[i], job.row_strides()[i]};
    copy.src_offset += (part.start[i] - chunk.start[i]) * array.chunk_strides()[i];
    copy.dst_offset += (part.start[i] - box.start[i]) * job.row_strides()[i];
    elements *= extent;
  }
  normalise(copy);
  run_block_copy(copy, decoded, job.row_memory(row), static_cast<std::size_t>(job.row_bytes()) * job.rows().size());
  job.placed(row, elements);
}

void place_fill(BatchJob& job, std::size_t row, const Box& part) {
  const ArrayMetadata& metadata = job.rows()[row].array->metadata();
  BlockCopy copy;
  copy.op = {metadata.dtype, job.shape().dtype, false};
  copy.rank = static_cast<std::uint32_t>(part.rank());
  std::int64_t elements = 1;
  for (std::size_t i = 0; i < part.rank(); ++i) {
    const std::int64_t extent = part.stop[i] - part.start[i];
    copy.axes[i] = {extent, 0, job.row_strides()[i]};
    copy.dst_offset += part.start[i] * job.row_strides()[i];
    elements *= extent;
  }
  normalise(copy);
  run_block_copy(copy, std::span(metadata.fill).first(size_of(metadata.dtype)), job.row_memory(row),
                 static_cast<std::size_t>(job.row_bytes()) * job.rows().size());
  job.placed(row, elements);
}

}  // namespace damacy
