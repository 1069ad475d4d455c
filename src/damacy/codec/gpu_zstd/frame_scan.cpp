#include "damacy/codec/gpu_zstd/frame_scan.h"

#include "damacy/codec/gpu_zstd/lz4_records.h"
#include "damacy/codec/zstd_walk.h"

namespace damacy::gpu {
namespace {

using ByteSpan = std::span<const std::byte>;

// Frames of more and smaller blocks than this are not worth their descriptors.
constexpr u64 kBytesPerBlock = 1024;
constexpr u64 kFreeBlocks = 16;

u32 little_endian(ByteSpan bytes, std::size_t at, unsigned count) {
  return static_cast<u32>(damacy::detail::read_le(bytes.data() + at, count));
}

u32 byte_at(ByteSpan bytes, std::size_t at) {
  return static_cast<u32>(bytes[at]);
}

// Sizes of the literals section; `end` is where the sequences section begins.
bool scan_literals(ByteSpan bytes, u32 index, u32 limit, TableSources& sources, Block& block, u32& end) {
  const u32 first = byte_at(bytes, 0), format = first >> 2 & 3;
  block.literal_type = static_cast<LiteralType>(first & 3);
  u32 header = 0;
  if (!block.has_huffman_literals()) {
    header = format == 1 ? 2 : format == 3 ? 3 : 1;
    if (bytes.size() < header) return false;
    block.literal_size = little_endian(bytes, 0, header) >> (header == 1 ? 3 : 4);
    block.literal_stored = block.literal_type == LiteralType::rle ? 1 : block.literal_size;
  } else {
    header = format < 2 ? 3 : format + 2;
    if (bytes.size() < header) return false;
    const u64 sizes = damacy::detail::read_le(bytes.data(), header) >> 4;
    const u32 width = header == 3 ? 10 : header == 4 ? 14 : 18;
    block.literal_size = static_cast<u32>(sizes & ((1u << width) - 1));
    block.literal_stored = static_cast<u32>(sizes >> width);
    if (format != 0) block.flags |= Block::kFourStreams;
    if (block.literal_size == 0) return false;
    if (block.literal_type == LiteralType::huffman) sources.huffman = index;
    if (sources.huffman == kNone) return false;
    block.huffman_block = sources.huffman;
  }
  if (block.literal_size > limit || block.literal_stored > bytes.size() - header) return false;
  block.literal_offset = static_cast<u8>(header);
  end = header + block.literal_stored;
  return true;
}

// The number of sequences and which tables they use, from `at` on.
bool scan_sequences(ByteSpan bytes, u32 at, u32 index, TableSources& sources, Block& block) {
  const auto left = [&] { return bytes.size() - at; };
  if (left() < 1) return false;
  const u32 first = byte_at(bytes, at++);
  block.sequence_count = first;
  if (first >= 128) {
    const u32 more = first < 255 ? 1 : 2;
    if (left() < more) return false;
    block.sequence_count =
        first < 255 ? ((first - 128) << 8) + byte_at(bytes, at) : little_endian(bytes, at, 2) + 0x7f00;
    at += more;
  }
  block.sequence_offset = at;
  if (block.sequence_count == 0) return left() == 0;
  if (left() < 1) return false;
  const u32 modes = byte_at(bytes, at);
  if ((modes & 3) != 0) return false;
  for (int i = 0; i < 3; ++i) {
    const bool repeated = (modes >> (6 - 2 * i) & 3) == 3;
    if (!repeated) sources.tables[i] = index;
    if (sources.tables[i] == kNone) return false;
    block.tables[i] = sources.tables[i];
  }
  return true;
}

void clear(FrameScan& scan) {
  scan.blocks.clear();
  scan.segments.clear();
  scan.literal_bytes = scan.records = scan.sequences = 0;
  scan.ask_host = false;
}

void place_frame(const GpuFrame& frame, FrameScan& scan) {
  scan.frame = {};
  scan.frame.source = frame.src_offset;
  scan.frame.destination = frame.dst_offset;
  scan.frame.source_size = static_cast<u32>(frame.src_size);
  scan.frame.size = static_cast<u32>(frame.dst_size);
  scan.frame.needed = scan.frame.size;
  if (frame.needed_end != 0 && frame.needed_end < frame.dst_size)
    scan.frame.needed = static_cast<u32>(frame.needed_end);
}

// Walks one input and appends its blocks as long as they are needed. What it refuses the host's decoder refuses, too,
// by the same walk; a block whose own headers look wrong is left to that decoder.
class ZstdScan {
 public:
  ZstdScan(ByteSpan bytes, const GpuFrame& frame, FrameScan& scan)
      : bytes_(bytes),
        scan_(scan),
        size_(frame.dst_size),
        block_limit_(frame.dst_size / kBytesPerBlock + kFreeBlocks),
        walk_(bytes.data(), bytes.size()) {}

  // Left out blocks, and then found a second zstd frame.
  bool cut_wrongly() const { return cut_wrongly_; }

  DecodeResult run() {
    ZstdExtent extent;
    while (!walk_.at_end()) {
      ZstdFrame frame;
      if (const DecodeResult result = walk_.next_frame(frame); !result.ok()) return result;
      if (const DecodeResult result = extent.begin(frame, size_); !result.ok()) return result;
      if (!frame.skippable)
        if (const DecodeResult result = run_frame(frame); !result.ok()) return result;
      if (const DecodeResult result = extent.add(frame, size_); !result.ok()) return result;
    }
    scan_.frame.block_count = static_cast<u32>(scan_.blocks.size());
    scan_.frame.segment_count = static_cast<u32>(scan_.segments.size());
    return extent.reaches(size_);
  }

 private:
  DecodeResult run_frame(ZstdFrame& frame) {
    // Of several frames the host verifies some to their ends, whatever is needed: here all are decoded.
    if (++frames_ > 1) need_all();
    TableSources sources;
    const auto first_block = static_cast<u32>(scan_.blocks.size());
    const auto segment = static_cast<u32>(scan_.segments.size());
    if (!cut_) begin_segment(frame);
    ZstdBlock header;
    while (!header.last) {
      if (++walked_ > Limits::zstd_blocks(size_))
        return {DecodeStatus::limit, "zstd: more blocks than the limit", walked_, Limits::zstd_blocks(size_)};
      if (const DecodeResult result = walk_.next_block(frame, header); !result.ok()) return result;
      cut_ = cut_ || may_cut();
      if (cut_) scan_.frame.cut = 1;
      if (!cut_ && !scan_.ask_host) scan_.ask_host = !append(frame, header, sources);
    }
    if (scan_.blocks.size() > first_block) {
      scan_.blocks[first_block].flags |= Block::kFirst;
      if (!cut_) scan_.blocks.back().flags |= Block::kLast;
    }
    if (!cut_ && frame.has_checksum)
      scan_.segments[segment].checksum =
          damacy::detail::read_le32(bytes_.data() + frame.end - ZstdWalk::kChecksumBytes);
    return {};
  }

  // All blocks except the last are full in practice; a wrong guess shows on the device and sends the frame to the host.
  bool may_cut() const { return scan_.frame.needed < size_ && guess_ >= scan_.frame.needed; }

  void need_all() {
    cut_wrongly_ = cut_wrongly_ || cut_;
    scan_.frame.needed = scan_.frame.size;
  }

  void begin_segment(const ZstdFrame& frame) {
    Segment segment{};
    segment.content_size = frame.has_content_size && frame.content_size < kUnknownSize
                               ? static_cast<u32>(frame.content_size)
                               : kUnknownSize;
    segment.has_checksum = frame.has_checksum ? 1 : 0;
    if (frame.has_checksum) need_all();
    scan_.segments.push_back(segment);
  }

  // False: the host decides.
  bool append(const ZstdFrame& frame, const ZstdBlock& header, TableSources& sources) {
    Block block{};
    block.source = header.data;
    block.size = header.stored;
    block.produced = header.size;
    block.type = static_cast<BlockType>(header.type);
    block.literals = scan_.literal_bytes;
    block.records = scan_.records;
    const auto index = static_cast<u32>(scan_.blocks.size());
    if (block.type == BlockType::compressed) {
      block.limit = frame.block_limit;
      const ByteSpan content = bytes_.subspan(header.data, header.stored);
      if (!scan_compressed_block(content, index, frame.block_limit, sources, block)) return false;
      if (block.literal_type != LiteralType::raw) scan_.literal_bytes += literal_room(block.literal_size);
      scan_.records += record_room(block.sequence_count);
      scan_.sequences += block.sequence_count;
    }
    least_ += block.produced + block.literal_size + u64{3} * block.sequence_count;
    guess_ += block.type == BlockType::compressed ? frame.block_limit : block.produced;
    scan_.blocks.push_back(block);
    return least_ <= size_ && scan_.blocks.size() <= block_limit_;
  }

  ByteSpan bytes_;
  FrameScan& scan_;
  u64 size_;
  u64 block_limit_;
  ZstdWalk walk_;
  u64 frames_ = 0, walked_ = 0;
  u64 least_ = 0, guess_ = 0;
  bool cut_ = false, cut_wrongly_ = false;
};

}  // namespace

bool scan_compressed_block(ByteSpan bytes, u32 index, u32 limit, TableSources& sources, Block& block) {
  u32 at = 0;
  return scan_literals(bytes, index, limit, sources, block, at) && scan_sequences(bytes, at, index, sources, block) &&
         block.literal_size + u64{3} * block.sequence_count <= limit;
}

DecodeResult scan_raw(const GpuFrame& frame, FrameScan& scan) {
  place_frame(frame, scan);
  if (frame.src_size != frame.dst_size) return {DecodeStatus::size, "raw bytes", frame.src_size, frame.dst_size};
  Block block{};
  block.size = scan.frame.size;
  block.produced = scan.frame.size;
  block.flags = Block::kFirst | Block::kLast;
  scan.blocks.push_back(block);
  scan.segments.push_back({kUnknownSize, 0, 0, 0});
  scan.frame.block_count = scan.frame.segment_count = 1;
  return {};
}

DecodeResult scan_zstd(ByteSpan bytes, const GpuFrame& frame, FrameScan& scan) {
  place_frame(frame, scan);
  ZstdScan first(bytes, frame, scan);
  const DecodeResult result = first.run();
  if (!result.ok() || !first.cut_wrongly()) return result;
  clear(scan);
  place_frame({.src_offset = frame.src_offset,
               .src_size = frame.src_size,
               .dst_offset = frame.dst_offset,
               .dst_size = frame.dst_size,
               .codec = frame.codec,
               .needed_end = 0},
              scan);
  return ZstdScan(bytes, frame, scan).run();
}

DecodeResult scan_lz4(ByteSpan bytes, const GpuFrame& frame, FrameScan& scan) {
  place_frame(frame, scan);
  if (bytes.empty()) return {DecodeStatus::frame, "lz4: no bytes"};
  if (frame.dst_size == 0 || frame.src_size > kMaxLz4Source) scan.ask_host = true;
  scan.frame.block_count = static_cast<u32>(lz4_run_count(frame.dst_size));
  scan.records = (lz4_record_bound(frame.src_size, frame.dst_size) + 3) & ~u64{3};
  scan.frame.record_capacity = static_cast<u32>(scan.records);
  return {};
}

}  // namespace damacy::gpu

namespace damacy {

DecodeResult scan_frame(std::span<const std::byte> bytes, const GpuFrame& frame, FrameScan& scan) {
  gpu::clear(scan);
  scan.codec = frame.codec;
  if (bytes.size() != frame.src_size) return {DecodeStatus::size, "bytes of a frame", bytes.size(), frame.src_size};
  if (frame.dst_size > gpu::kMaxFrameOutput || frame.src_size > gpu::kMaxFrameOutput) {
    scan.ask_host = true;
    return {};
  }
  if (frame.codec == GpuCodec::zstd) return gpu::scan_zstd(bytes, frame, scan);
  return frame.codec == GpuCodec::lz4 ? gpu::scan_lz4(bytes, frame, scan) : gpu::scan_raw(frame, scan);
}

}  // namespace damacy
