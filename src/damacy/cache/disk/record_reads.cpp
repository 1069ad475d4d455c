#include "damacy/cache/disk/record_reads.h"

#include <algorithm>
#include <array>
#include <new>
#include <utility>
#include <vector>

#include "damacy/codec/chain.h"

namespace damacy {
namespace {

constexpr std::size_t kRecordsARead = 256;
constexpr std::uint64_t kMostGap = 4096;  // bytes of other records between those that one call reads

bool is_right(const RecordHeaderBytes& head, const Hint& hint, const ChunkKey& key,
              std::span<const std::byte> bytes) noexcept {
  const auto header = parse_record_header(head);
  return header && header->key == key && header->generation == hint.generation && header->length == bytes.size() &&
         header->checksum == crc32c(bytes);
}

bool is_neighbour(const Hint& before, const Hint& after) noexcept {
  const std::uint64_t end = before.offset + RecordHeader::kBytes + before.length;
  return before.segment == after.segment && after.offset >= end && after.offset - end <= kMostGap;
}

}  // namespace

std::optional<Hint> RecordReads::find(const ChunkKey& key, std::uint64_t bytes) const noexcept {
  if (health_.is_off()) return std::nullopt;
  auto hint = hints_.find(key);
  if (!hint || hint->length != bytes || hint->segment >= table_.count()) return std::nullopt;
  return hint;
}

bool RecordReads::read(const Hint& hint, const ChunkKey& key, std::span<std::byte> to) noexcept {
  try {
    const auto file = files_.open(hint.segment);
    if (!file) return false;
    RecordHeaderBytes head{};
    const std::array<iovec, 2> vectors{iovec{head.data(), head.size()}, iovec{to.data(), to.size()}};
    bool whole = false;
    if (const int error = read_vectors(calls_, *file, vectors, hint.offset, whole); error != 0) {
      health_.failed("read", error);
      return false;
    }
    if (whole && is_right(head, hint, key, to)) return true;
    files_.forget(hint.segment);
    return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

bool RecordReads::read_any(const ChunkKey& key, std::size_t most, std::string& to) noexcept {
  if (health_.is_off()) return false;
  const auto hint = hints_.find(key);
  if (!hint || hint->length > most || hint->segment >= table_.count()) return false;
  try {
    to.resize(hint->length);
  } catch (const std::bad_alloc&) {
    return false;
  }
  return read(*hint, key, std::as_writable_bytes(std::span(to)));
}

void RecordReads::read(std::span<WantedRecord> wanted) noexcept {
  if (health_.is_off()) return;
  try {
    std::vector<LocatedRecord> located;
    located.reserve(wanted.size());
    for (WantedRecord& one : wanted) {
      one.found = false;
      if (const auto hint = find(one.key, one.to.size())) located.push_back({*hint, &one});
    }
    std::ranges::sort(located, {},
                      [](const LocatedRecord& one) { return std::pair(one.hint.segment, one.hint.offset); });
    for (std::size_t first = 0; first < located.size();) {
      std::size_t last = first + 1;
      while (last < located.size() && last - first < kRecordsARead &&
             is_neighbour(located[last - 1].hint, located[last].hint))
        ++last;
      read_together(std::span(located).subspan(first, last - first));
      first = last;
    }
    table_.count_reads(wanted, located);
  } catch (const std::bad_alloc&) {
  }
}

// Records of one segment that are neighbours, in order: one call reads them to their places.
void RecordReads::read_together(std::span<LocatedRecord> located) noexcept {
  if (located.size() == 1) {
    located[0].wanted->found = read(located[0].hint, located[0].wanted->key, located[0].wanted->to);
    return;
  }
  try {
    const auto file = files_.open(located[0].hint.segment);
    if (!file) return;
    std::vector<RecordHeaderBytes> heads(located.size());
    std::vector<std::byte> gap(kMostGap);
    std::vector<iovec> vectors;
    std::uint64_t at = located[0].hint.offset;
    for (std::size_t i = 0; i < located.size(); ++i) {
      const Hint& hint = located[i].hint;
      if (hint.offset > at) vectors.push_back({gap.data(), hint.offset - at});
      vectors.push_back({heads[i].data(), heads[i].size()});
      vectors.push_back({located[i].wanted->to.data(), located[i].wanted->to.size()});
      at = hint.offset + RecordHeader::kBytes + hint.length;
    }
    bool whole = false;
    if (const int error = read_vectors(calls_, *file, vectors, located[0].hint.offset, whole); error != 0)
      return health_.failed("read", error);
    for (std::size_t i = 0; i < located.size(); ++i)
      located[i].wanted->found =
          whole && is_right(heads[i], located[i].hint, located[i].wanted->key, located[i].wanted->to);
    if (!std::ranges::all_of(located, [](const LocatedRecord& one) { return one.wanted->found; }))
      files_.forget(located[0].hint.segment);
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace damacy
