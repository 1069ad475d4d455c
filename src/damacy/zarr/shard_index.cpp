#include "damacy/zarr/shard_index.h"

#include "damacy/core/checked.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy {
namespace {

constexpr std::uint64_t kMissing = ~std::uint64_t{0};

Error bad_index(std::string message) {
  return Error(Status::decode, std::move(message), "shard-index");
}

template <std::size_t kBytes>
std::uint64_t read_unsigned(const std::byte* from, bool big_endian) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < kBytes; ++i) {
    const std::size_t place = big_endian ? i : kBytes - 1 - i;
    value = value << 8 | static_cast<std::uint64_t>(from[place]);
  }
  return value;
}

// Each checksum covers all that comes before it.
void check_checksums(std::span<const std::byte> bytes, std::uint32_t checksums) {
  for (std::uint32_t i = 0; i < checksums; ++i) {
    const auto covered = bytes.first(bytes.size() - 4);
    const auto stored = read_unsigned<4>(covered.data() + covered.size(), /*big_endian=*/false);
    const std::uint64_t computed = crc32c(covered);
    if (stored != computed)
      throw bad_index(formatted("checksum of the index: stored {}, computed {}", stored, computed));
    bytes = covered;
  }
}

struct Bounds {  // of what chunks may occupy
  std::uint64_t begin;
  std::uint64_t end;
};

void check_entry(std::size_t entry, std::uint64_t offset, std::uint64_t bytes, const Bounds& bounds,
                 const ShardIndex::Rules& rules) {
  const auto names = [&] { return formatted("entry {} of the index (offset {}, {} bytes)", entry, offset, bytes); };
  if (offset == kMissing || bytes == kMissing)
    throw bad_index(formatted("{}: only one of offset and size says that the chunk is missing", names()));
  const auto end = checked_add(offset, bytes);
  if (!end || *end > rules.object_bytes)
    throw bad_index(formatted("{} ends outside the object of {} bytes", names(), rules.object_bytes));
  if (offset < bounds.begin || *end > bounds.end) throw bad_index(formatted("{} overlaps the index", names()));
  if (bytes == 0) throw bad_index(formatted("{} is empty", names()));
  if (rules.exact_chunk_bytes && bytes != *rules.exact_chunk_bytes)
    throw bad_index(formatted("{} must have {} bytes", names(), *rules.exact_chunk_bytes));
  if (bytes > rules.max_chunk_bytes)
    throw Error(Status::inval, formatted("{} exceeds the limit of {} bytes of a chunk", names(), rules.max_chunk_bytes),
                "limit");
}

}  // namespace

ShardIndex ShardIndex::parse(std::span<const std::byte> bytes, std::size_t chunk_count, const ShardIndexLayout& layout,
                             const Rules& rules, const ChunkOf& chunk_of) {
  const std::uint64_t index_bytes = encoded_bytes(chunk_count, layout);
  if (bytes.size() != index_bytes || rules.object_bytes < index_bytes)
    throw Error(Status::io,
                formatted("short read: an index of {} bytes in an object of {}", index_bytes, rules.object_bytes),
                "short-read");
  check_checksums(bytes, layout.checksums);
  const Bounds bounds =
      layout.at_end ? Bounds{0, rules.object_bytes - index_bytes} : Bounds{index_bytes, rules.object_bytes};
  std::vector<Entry> entries(chunk_count);
  for (std::size_t i = 0; i < chunk_count; ++i) {
    const std::byte* const at = bytes.data() + i * kEntryBytes;
    entries[i] = {read_unsigned<8>(at, layout.big_endian), read_unsigned<8>(at + 8, layout.big_endian)};
    if (entries[i].offset == kMissing && entries[i].bytes == kMissing) continue;
    try {
      check_entry(i, entries[i].offset, entries[i].bytes, bounds, rules);
    } catch (Error& e) {
      throw chunk_of ? e.at_chunk(chunk_of(i)) : e;
    }
    entries[i].offset += rules.base;
  }
  ShardIndex index;
  index.entries_ = std::make_shared<const std::vector<Entry>>(std::move(entries));
  return index;
}

std::optional<ByteRange> ShardIndex::find(std::size_t chunk) const noexcept {
  if (!entries_) return std::nullopt;
  const Entry& entry = (*entries_)[chunk];
  if (entry.offset == kMissing) return std::nullopt;
  return ByteRange{entry.offset, entry.offset + entry.bytes};
}

}  // namespace damacy
