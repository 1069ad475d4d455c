#include "damacy/wave/needed_blocks.h"

#include <algorithm>
#include <cstring>

#include "damacy/core/checked.h"

namespace damacy {
namespace {

// Smaller blocks of blosc, which no writer makes, are not worth their descriptors.
constexpr std::uint64_t kMinDeviceBlock = 64;

// Larger ones are slower on a device than on a core: a stream is decoded serially.
constexpr std::uint64_t kMaxDeviceBlock = std::uint64_t{64} << 20;

// A decoded part lies to words as it does in the whole chunk.
constexpr std::uint64_t kAligned = 256;

void add_blocks_of(const ByteRange& needed, NeededBlocks& found) {
  if (needed.begin >= needed.end) return;
  const BloscHeader& header = found.header;
  const std::uint64_t last = (needed.end - 1) / header.blocksize;
  const ByteRange blocks{needed.begin / header.blocksize * header.blocksize,
                         header.block_begin(last) + header.block_size(last)};
  if (!found.decoded.empty() && blocks.begin <= found.decoded.back().range.end)
    found.decoded.back().range.end = std::max(found.decoded.back().range.end, blocks.end);
  else
    found.decoded.push_back({blocks, 0});
}

void place_parts(NeededBlocks& found) {
  for (NeededBlocks::Part& part : found.encoded) {
    part.at = found.staged_bytes;
    found.staged_bytes += part.range.size();
  }
  for (NeededBlocks::Part& part : found.decoded) {
    part.at = round_up(found.decoded_bytes, kAligned) + part.range.begin % kAligned;
    found.decoded_bytes = part.at + part.range.size();
    for (std::uint64_t at = part.range.begin; at < part.range.end; at += found.header.blocksize)
      found.frames += found.header.splits(at / found.header.blocksize);
  }
}

}  // namespace

const NeededBlocks::Part* NeededBlocks::part_with(std::span<const Part> parts, ByteRange some) noexcept {
  const auto behind =
      std::ranges::upper_bound(parts, some.begin, {}, [](const Part& part) { return part.range.begin; });
  if (behind == parts.begin()) return nullptr;
  const Part& part = *std::prev(behind);
  return part.has(some) ? &part : nullptr;
}

std::optional<std::uint64_t> NeededBlocks::shift_of(ByteRange some) const noexcept {
  const Part* const part = part_with(decoded, some);
  if (part == nullptr) return std::nullopt;
  return part->at - part->range.begin;
}

// None moves to the left, so the last goes first.
void NeededBlocks::spread(std::span<std::byte> bytes) const noexcept {
  for (auto part = encoded.rbegin(); part != encoded.rend(); ++part)
    std::memmove(bytes.data() + part->range.begin, bytes.data() + part->at, part->range.size());
}

std::vector<ByteRange> NeededBlocks::available() const {
  std::vector<ByteRange> ranges;
  ranges.reserve(encoded.size());
  for (const Part& part : encoded) ranges.push_back(part.range);
  return ranges;
}

bool device_decodes(const BloscHeader& header) noexcept {
  const bool has_kernel = header.codec == BloscCodec::lz4 || header.codec == BloscCodec::zstd;
  return has_kernel && (header.blocksize >= kMinDeviceBlock || header.block_count <= 1);
}

DecodeResult find_needed_blocks(std::span<const std::byte> head, std::uint64_t encoded_size, std::uint64_t decoded_size,
                                std::span<const ByteRange> needed, NeededBlocks& found) {
  found = {};
  found.encoded_size = encoded_size;
  BloscHeader& header = found.header;
  if (const DecodeResult r = read_blosc_header(head, encoded_size, &decoded_size, header); !r.ok()) return r;
  if (header.block_count == 0 || !device_decodes(header) || header.blocksize > kMaxDeviceBlock)
    return {DecodeStatus::unsupported, "blosc: blocks that a device does not decode", header.block_count,
            header.blocksize};
  const std::uint64_t table_end = header.table_end();
  if (head.size() < table_end)
    return {DecodeStatus::need_more, "blosc: the head ends inside the start table", head.size(), table_end};
  const std::span<const std::byte> table = head.first(table_end);
  std::vector<ByteRange> ranges;
  if (const DecodeResult r = blosc_partial_ranges(table, encoded_size, decoded_size, needed, ranges); !r.ok()) return r;
  found.table.assign(table.begin(), table.end());
  found.encoded.push_back({{0, table_end}, 0});
  for (const ByteRange& range : ranges) found.encoded.push_back({range, 0});
  for (const ByteRange& range : needed) add_blocks_of(range, found);
  place_parts(found);
  return {};
}

}  // namespace damacy
