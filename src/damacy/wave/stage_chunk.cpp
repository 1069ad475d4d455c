#include "damacy/wave/stage_chunk.h"

#include "damacy/batch/place.h"

namespace damacy {
namespace {

// The axes of `part` with the row's strides; source strides are the caller's.
BlockCopy copy_into_row(const BatchJob& job, std::uint32_t row, const Box& part, const CopyOp& op) {
  BlockCopy copy;
  copy.op = op;
  copy.rank = static_cast<std::uint32_t>(part.rank());
  const Box relative = relative_to(part, job.rows()[row].box);
  for (std::size_t i = 0; i < part.rank(); ++i) {
    copy.axes[i] = {part.stop[i] - part.start[i], 0, job.row_strides()[i]};
    copy.dst_offset += relative.start[i] * job.row_strides()[i];
  }
  return copy;
}

std::uint64_t offset_of_row(const BatchJob& job, std::uint32_t row) {
  return row * static_cast<std::uint64_t>(job.row_bytes());
}

}  // namespace

void stage_chunk(Wave& wave, StagedChunk& chunk, std::span<const std::byte> packed) noexcept {
  const auto failure = failure_of([&] {
    const ArrayMetadata& metadata = chunk.tasks->array_of(chunk.tasks->shard_of(chunk.chunk)).metadata();
    const StagedBytes bytes{packed, chunk.staged_at, chunk.decoded_at, metadata.chunk_bytes(),
                            chunk.tasks->needed_bytes(chunk.chunk)};
    const FrameSink sink{*wave.slot().frames, [&](std::span<const std::uint32_t> own) {
                           wave.own_frames(own, chunk, metadata.chunk_bytes());
                         }};
    StagedFrames found;
    const DecodeResult result = stage_frames(metadata.codecs, bytes, sink, found);
    if (!result.ok() || found.host) {
      chunk.redo = true;
      return;
    }
    const std::uint64_t address =
        found.in_source ? wave.source_address(*found.in_source) : wave.destination_address(chunk.decoded_at);
    add_placements(chunk.share->placements, chunk, address, found.layout);
  });
  if (!failure) return;
  chunk.failed = true;
  chunk.tasks->fail_chunk(chunk.chunk, *failure);
}

void add_placements(PlacementList& list, const StagedChunk& chunk, std::uint64_t address, const ChunkLayout& layout) {
  BatchJob& job = chunk.tasks->job();
  const Array& array = chunk.tasks->array_of(chunk.tasks->shard_of(chunk.chunk));
  const Box box = chunk.tasks->box_of(chunk.chunk);
  const CopyOp op{array.metadata().dtype, job.shape().dtype, array.metadata().swap_bytes};
  for (const std::uint32_t row : chunk.tasks->rows_of(chunk.chunk)) {
    const Box part = wanted(job, row, box);
    BlockCopy copy = copy_into_row(job, row, part, op);
    for (std::size_t i = 0; i < part.rank(); ++i) {
      copy.axes[i].src_stride = array.chunk_strides()[i];
      copy.src_offset += (part.start[i] - box.start[i]) * array.chunk_strides()[i];
    }
    normalise(copy);
    list.add(copy, address, offset_of_row(job, row), layout);
  }
}

void add_crop(PlacementList& list, const StagedChunk& chunk, std::uint32_t row, const Box& part,
              std::uint64_t address) {
  BatchJob& job = chunk.tasks->job();
  const ArrayMetadata& metadata = chunk.tasks->array_of(chunk.tasks->shard_of(chunk.chunk)).metadata();
  BlockCopy copy = copy_into_row(job, row, part, {metadata.dtype, job.shape().dtype, metadata.swap_bytes});
  const Dims strides = row_major_strides(part.extents());
  const auto element = static_cast<std::int64_t>(size_of(metadata.dtype));
  for (std::size_t i = 0; i < part.rank(); ++i) copy.axes[i].src_stride = strides[i] * element;
  normalise(copy);
  ChunkLayout layout;
  layout.chunk_bytes = static_cast<std::uint64_t>(*product(part.extents().span()) * element);
  list.add(copy, address, offset_of_row(job, row), layout);
}

void add_fill(PlacementList& list, const BatchJob& job, std::uint32_t row, const Box& part, std::uint64_t address) {
  const Dtype dtype = job.rows()[row].array->metadata().dtype;
  BlockCopy copy;
  copy.op = {dtype, job.shape().dtype, false};
  copy.rank = static_cast<std::uint32_t>(part.rank());
  for (std::size_t i = 0; i < part.rank(); ++i) {
    copy.axes[i] = {part.stop[i] - part.start[i], 0, job.row_strides()[i]};
    copy.dst_offset += part.start[i] * job.row_strides()[i];
  }
  normalise(copy);
  ChunkLayout layout;
  layout.chunk_bytes = size_of(dtype);
  list.add(copy, address, offset_of_row(job, row), layout);
}

}  // namespace damacy
