// Scans that are kept for later waves: as bytes, and cut to what is needed. Knows descriptors; no frame's bytes.
#include <cstring>
#include <type_traits>

#include "damacy/codec/gpu_decoder.h"

namespace damacy {
namespace {

// What comes first; then the blocks, and the segments.
struct ScanHead {
  gpu::Frame frame;
  std::uint64_t literal_bytes, records, sequences;
  std::uint32_t blocks, segments;
  GpuCodec codec;
};
static_assert(std::is_trivially_copyable_v<ScanHead>);

template <class T>
void append(const T* items, std::size_t count, std::vector<std::byte>& to) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(items);
  to.insert(to.end(), bytes, bytes + count * sizeof(T));
}

template <class T>
const std::byte* read(const std::byte* from, std::size_t count, std::vector<T>& items) {
  items.resize(count);
  if (count > 0) std::memcpy(items.data(), from, count * sizeof(T));
  return from + count * sizeof(T);
}

// What a block takes of the scratch for literals and records.
void add_scratch(const gpu::Block& block, FrameScan& scan) noexcept {
  if (block.type != gpu::BlockType::compressed) return;
  if (block.literal_type != gpu::LiteralType::raw) scan.literal_bytes += gpu::literal_room(block.literal_size);
  scan.records += gpu::record_room(block.sequence_count);
  scan.sequences += block.sequence_count;
}

}  // namespace

void append_scan(const FrameScan& scan, std::vector<std::byte>& to) {
  ScanHead head{};
  head.frame = scan.frame;
  head.literal_bytes = scan.literal_bytes;
  head.records = scan.records;
  head.sequences = scan.sequences;
  head.blocks = static_cast<std::uint32_t>(scan.blocks.size());
  head.segments = static_cast<std::uint32_t>(scan.segments.size());
  head.codec = scan.codec;
  append(&head, 1, to);
  append(scan.blocks.data(), scan.blocks.size(), to);
  append(scan.segments.data(), scan.segments.size(), to);
}

void read_scan(std::span<const std::byte> bytes, FrameScan& scan) {
  ScanHead head;
  std::memcpy(&head, bytes.data(), sizeof head);
  scan.frame = head.frame;
  scan.literal_bytes = head.literal_bytes;
  scan.records = head.records;
  scan.sequences = head.sequences;
  scan.codec = head.codec;
  scan.ask_host = false;
  read(read(bytes.data() + sizeof head, head.blocks, scan.blocks), head.segments, scan.segments);
}

// As in the scan: several segments, and those with a checksum, are decoded to their ends.
void cut_scan(FrameScan& scan, std::uint64_t needed_end) noexcept {
  if (scan.codec != GpuCodec::zstd || needed_end == 0 || needed_end >= scan.frame.size) return;
  if (scan.segments.size() != 1 || scan.segments.front().has_checksum != 0) return;
  scan.frame.needed = static_cast<gpu::u32>(needed_end);
  gpu::u64 guess = 0;
  std::size_t kept = 0;
  for (; kept < scan.blocks.size() && guess < needed_end; ++kept) {
    const gpu::Block& block = scan.blocks[kept];
    guess += block.type == gpu::BlockType::compressed ? block.limit : block.produced;
  }
  if (kept == scan.blocks.size()) return;
  scan.blocks.resize(kept);
  scan.literal_bytes = scan.records = scan.sequences = 0;
  for (const gpu::Block& block : scan.blocks) add_scratch(block, scan);
  scan.frame.block_count = static_cast<gpu::u32>(kept);
  scan.frame.cut = 1;
}

}  // namespace damacy
