// A shard's index: the location of each inner chunk's bytes. Knows the byte format, its checksum and the rules for
// entries. Does not read files, and does not know what a chunk means.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "damacy/codec/chain.h"
#include "damacy/zarr/metadata.h"

namespace damacy {

class ShardIndex {
 public:
  static constexpr std::size_t kEntryBytes = 16;

  static std::uint64_t encoded_bytes(std::size_t chunk_count, const ShardIndexLayout& layout) noexcept {
    return kEntryBytes * chunk_count + std::uint64_t{4} * layout.checksums;
  }

  // What every entry must obey.
  struct Rules {
    std::uint64_t object_bytes = 0;
    std::uint64_t max_chunk_bytes = 0;               // encoded
    std::optional<std::uint64_t> exact_chunk_bytes;  // when no codec compresses
    std::uint64_t base = 0;                          // of the shard in what is read: ranges count from there
  };
  // The chunk that an entry leads to, for errors; may be empty.
  using ChunkOf = std::function<std::vector<std::int64_t>(std::size_t entry)>;
  // No chunk is there.
  ShardIndex() = default;
  // `bytes` is exactly encoded_bytes(). Verifies checksums first, then every entry. Throws Error(decode,
  // "shard-index"), limits Error(inval, "limit"), about an entry with the chunk it is of.
  static ShardIndex parse(std::span<const std::byte> bytes, std::size_t chunk_count, const ShardIndexLayout& layout,
                          const Rules& rules, const ChunkOf& chunk_of = {});

  std::size_t chunk_count() const noexcept { return entries_ ? entries_->size() : 0; }
  // Empty: the chunk is missing.
  std::optional<ByteRange> find(std::size_t chunk) const noexcept;

 private:
  struct Entry {
    std::uint64_t offset;
    std::uint64_t bytes;
  };
  std::shared_ptr<const std::vector<Entry>> entries_;  // never changed: copies are cheap
};

}  // namespace damacy
