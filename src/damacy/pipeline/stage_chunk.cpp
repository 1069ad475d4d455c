#include "damacy/pipeline/stage_chunk.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "damacy/codec/blosc.h"
#include "damacy/codec/bytes.h"
#include "damacy/pipeline/place.h"

namespace damacy {
namespace {

constexpr std::uint64_t kCrcBytes = 4;

// Larger streams are slower on a device than on a core: they are decoded serially.
constexpr std::uint64_t kMaxDeviceChunk = std::uint64_t{64} << 20;

bool has_kernel(CodecId id) noexcept {
  return id == CodecId::zstd || id == CodecId::blosc || id == CodecId::lz4;
}

// A chunk while its frames are found.
struct Staging {
  Wave& wave;
  StagedChunk& chunk;
  std::span<const std::byte> bytes;  // of the frame, checksums gone
  std::uint64_t at;                  // of bytes[0], in the slab
  std::uint64_t decoded_size;
  std::vector<ByteRange> needed;
  ChunkLayout layout;
  std::uint64_t address;  // where the decoded elements will lie
  std::vector<GpuFrame>& frames;
  bool host = false;  // the decoder leaves it to the host
};

DecodeResult strip_checksums(const CodecChain& codecs, Staging& staging) {
  for (std::size_t i = codecs.codecs().size(); i-- > 0 && codecs.codecs()[i].id == CodecId::crc32c;) {
    if (staging.bytes.size() < kCrcBytes)
      return {DecodeStatus::size, "crc32c: fewer bytes than a checksum has", staging.bytes.size(), kCrcBytes};
    const bool front = codecs.codecs()[i].checksum_at_start;
    const auto stored_at = front ? staging.bytes.first(kCrcBytes) : staging.bytes.last(kCrcBytes);
    const std::uint32_t stored = detail::read_le32(stored_at.data());
    staging.bytes = front ? staging.bytes.subspan(kCrcBytes) : staging.bytes.first(staging.bytes.size() - kCrcBytes);
    staging.at += front ? kCrcBytes : 0;
    if (const std::uint32_t computed = crc32c(staging.bytes); stored != computed)
      return {DecodeStatus::checksum, "crc32c: stored checksum", stored, computed};
  }
  return {};
}

// `needed`: bytes [0, needed) of the output must be right; 0: all. As on the host, only plain zstd ends early.
void describe_frame(Staging& staging, GpuCodec codec, ByteRange source, ByteRange target, std::uint64_t needed = 0) {
  GpuFrame frame;
  frame.src_offset = staging.at + source.begin;
  frame.src_size = source.size();
  frame.dst_offset = staging.chunk.decoded_at + target.begin;
  frame.dst_size = target.size();
  frame.codec = codec;
  frame.needed_end = needed;
  staging.frames.push_back(frame);
}

// Gives the wave all frames at once: each time readers meet there costs them more than a small frame does.
DecodeResult add_frames(Staging& staging) {
  if (staging.host || staging.frames.empty()) return {};
  thread_local std::vector<std::uint32_t> indices;
  indices.resize(staging.frames.size());
  const DecodeResult result = staging.wave.slot().frames->add_chunk(staging.bytes, staging.at, staging.frames, indices);
  staging.wave.own_frames(indices, staging.chunk);
  staging.host = std::ranges::find(indices, FrameList::kHost) != indices.end();
  return result;
}

void in_place(Staging& staging, std::uint64_t offset) {
  staging.address = staging.wave.source_address(staging.at + offset);
}

DecodeResult stage_raw(Staging& staging) {
  if (staging.bytes.size() != staging.decoded_size)
    return {DecodeStatus::size, "size of the stored bytes", staging.bytes.size(), staging.decoded_size};
  in_place(staging, 0);
  return {};
}

DecodeResult stage_lz4(Staging& staging) {
  if (staging.bytes.size() < 4)
    return {DecodeStatus::size, "lz4: fewer bytes than a size has", staging.bytes.size(), 4};
  const std::uint64_t declared = detail::read_le32(staging.bytes.data());
  if (declared != staging.decoded_size)
    return {DecodeStatus::size, "lz4: declared size", declared, staging.decoded_size};
  describe_frame(staging, GpuCodec::lz4, {4, staging.bytes.size()}, {0, staging.decoded_size});
  return {};
}

bool wants_block(const Staging& staging, std::uint64_t begin, std::uint64_t end) {
  return std::any_of(staging.needed.begin(), staging.needed.end(),
                     [&](const ByteRange& r) { return r.begin < end && r.end > begin; });
}

DecodeResult stage_blosc_block(Staging& staging, const BloscHeader& header, std::uint64_t block) {
  const ByteRange everything{0, staging.bytes.size()};
  std::uint64_t position = 0;
  if (const DecodeResult r = blosc_block_start(header, staging.bytes, block, position); !r.ok()) return r;
  const std::uint32_t splits = header.splits(block);
  const std::uint64_t stream = header.block_size(block) / splits;
  for (std::uint32_t s = 0; s < splits; ++s) {
    ByteRange data;
    if (const DecodeResult r = blosc_stream(staging.bytes, {&everything, 1}, stream, position, data); !r.ok()) return r;
    const std::uint64_t target = header.block_begin(block) + s * stream;
    const GpuCodec codec = data.size() == stream             ? GpuCodec::raw
                           : header.codec == BloscCodec::lz4 ? GpuCodec::lz4
                                                             : GpuCodec::zstd;
    describe_frame(staging, codec, data, {target, target + stream});
  }
  return {};
}

DecodeResult stage_blosc(Staging& staging) {
  BloscHeader header;
  if (const DecodeResult r = read_blosc_header(staging.bytes, staging.bytes.size(), &staging.decoded_size, header);
      !r.ok())
    return r;
  if (header.memcpyed) {
    in_place(staging, BloscHeader::kBytes);
    return {};
  }
  if (header.codec != BloscCodec::lz4 && header.codec != BloscCodec::zstd) {
    staging.host = true;
    return {};
  }
  staging.layout.typesize = static_cast<std::uint8_t>(header.typesize);
  staging.layout.block_bytes = static_cast<std::uint32_t>(header.blocksize);
  if (header.filter == BloscFilter::bytes) staging.layout.shuffle = ChunkLayout::Shuffle::bytes;
  if (header.filter == BloscFilter::bits) staging.layout.shuffle = ChunkLayout::Shuffle::bits;
  for (std::uint64_t block = 0; block < header.block_count; ++block) {
    const std::uint64_t begin = header.block_begin(block);
    if (!wants_block(staging, begin, begin + header.block_size(block))) continue;
    if (const DecodeResult r = stage_blosc_block(staging, header, block); !r.ok()) return r;
  }
  return {};
}

DecodeResult stage_frames(const CodecChain& codecs, Staging& staging) {
  if (const DecodeResult r = strip_checksums(codecs, staging); !r.ok()) return r;
  if (codecs.codecs().empty() || codecs.codecs().front().id == CodecId::crc32c) return stage_raw(staging);
  switch (codecs.codecs().front().id) {
    case CodecId::lz4:
      return stage_lz4(staging);
    case CodecId::blosc:
      return stage_blosc(staging);
    default:
      break;
  }
  describe_frame(staging, GpuCodec::zstd, {0, staging.bytes.size()}, {0, staging.decoded_size},
                 std::min(staging.needed.back().end, staging.decoded_size));
  return {};
}

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

bool device_decodes(const CodecChain& codecs) noexcept {
  const auto list = codecs.codecs();
  const std::size_t compressors = static_cast<std::size_t>(
      std::count_if(list.begin(), list.end(), [](const CodecSpec& codec) { return codec.id != CodecId::crc32c; }));
  return compressors == 0 || (compressors == 1 && has_kernel(list.front().id));
}

void stage_chunk(Wave& wave, StagedChunk& chunk, std::span<const std::byte> packed) noexcept {
  try {
    const ArrayMetadata& metadata = chunk.tasks->array_of(chunk.tasks->shard_of(chunk.chunk)).metadata();
    thread_local std::vector<GpuFrame> frames;
    frames.clear();
    Staging staging{wave,
                    chunk,
                    packed,
                    chunk.staged_at,
                    metadata.chunk_bytes(),
                    chunk.tasks->needed_bytes(chunk.chunk),
                    {},
                    wave.destination_address(chunk.decoded_at),
                    frames};
    staging.layout.chunk_bytes = staging.decoded_size;
    DecodeResult result = stage_frames(metadata.codecs, staging);
    if (result.ok()) result = add_frames(staging);
    if (!result.ok()) {
      chunk.failed = true;
      return chunk.tasks->fail_chunk(chunk.chunk, result);
    }
    if (staging.host || staging.decoded_size > kMaxDeviceChunk) {
      chunk.redo = true;
      return;
    }
    add_placements(chunk.share->placements, chunk, staging.address, staging.layout);
  } catch (...) {
    chunk.failed = true;
    chunk.tasks->fail_chunk_in_flight(chunk.chunk);
  }
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
