// Which blocks of a large blosc chunk are needed: the ranges of its bytes that a read brings, one behind the other, and
// where the decoded blocks go. Pure. Knows the table of blosc's blocks; not waves, not reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "damacy/codec/blosc.h"
#include "damacy/codec/ranges.h"
#include "damacy/codec/status.h"

namespace damacy {

struct NeededBlocks {
  // A range of the chunk, and where it is in memory that has only such ranges.
  struct Part {
    ByteRange range;
    std::uint64_t at;
    [[nodiscard]] bool has(ByteRange some) const noexcept { return range.begin <= some.begin && some.end <= range.end; }
  };
  BloscHeader header;
  std::uint64_t encoded_size = 0;   // of the whole chunk
  std::vector<std::byte> table;     // the chunk's bytes up to the end of the table: what encoded[0] has
  std::vector<Part> encoded;        // sorted, disjoint
  std::vector<Part> decoded;        // the same; whole blocks. Every needed range is in one
  std::uint64_t staged_bytes = 0;   // of all `encoded`
  std::uint64_t decoded_bytes = 0;  // of all `decoded`, with gaps between them
  std::uint64_t frames = 0;         // a stream of a block is one

  // The part that has all of `some`; null: none.
  [[nodiscard]] static const Part* part_with(std::span<const Part> parts, ByteRange some) noexcept;
  // From the place of `some` in the chunk to its place in `decoded`, modulo 2^64. Empty: no part has all of it.
  [[nodiscard]] std::optional<std::uint64_t> shift_of(ByteRange some) const noexcept;
  // Moves what lies as `encoded` says to its places in the chunk. `bytes` has encoded_size.
  void spread(std::span<std::byte> bytes) const noexcept;
  [[nodiscard]] std::vector<ByteRange> available() const;
};

// Whether a device decodes the blocks of such a frame.
[[nodiscard]] bool device_decodes(const BloscHeader& header) noexcept;

// `head`: the first bytes of the chunk. need_more: it ends before the table, which ends at `expected`. unsupported: a
// device decodes no blocks of it. `needed`: sorted, disjoint, not empty.
[[nodiscard]] DecodeResult find_needed_blocks(std::span<const std::byte> head, std::uint64_t encoded_size,
                                              std::uint64_t decoded_size, std::span<const ByteRange> needed,
                                              NeededBlocks& found);

}  // namespace damacy
