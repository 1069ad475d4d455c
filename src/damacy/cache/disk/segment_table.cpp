#include "damacy/cache/disk/segment_table.h"

#include <algorithm>

#include "damacy/core/error.h"

namespace damacy {
namespace {

// Other processes see the hits of a segment each time they come to 1/16 of its bytes.
constexpr std::uint64_t kUsesASegment = 16;
constexpr std::uint64_t kTriesAgainAfter = 64;  // when nothing may go: after so many parts of the entries are looked up
constexpr std::uint64_t kLeastTriesAgain = 64;

void add(DiskCount& count, std::uint64_t entries, std::uint64_t bytes) noexcept {
  count.entries += static_cast<std::int64_t>(entries);
  count.bytes += static_cast<std::int64_t>(bytes);
}

}  // namespace

SegmentTable::SegmentTable(SegmentFiles& files, Number count, std::uint64_t segment_bytes, std::uint64_t remembered)
    : files_(files), count_(count), segment_bytes_(segment_bytes), policy_(remembered), segments_(count) {
  for (Number number = 0; number < count_; ++number) look_at(number);
}

bool SegmentTable::exists(Number number) const {
  const Lock lock(mutex_);
  return segments_[number].generation != 0;
}

std::uint64_t SegmentTable::existing() const {
  const Lock lock(mutex_);
  return static_cast<std::uint64_t>(
      std::ranges::count_if(segments_, [](const Segment& one) { return one.generation != 0; }));
}

bool SegmentTable::is_current(const Hint& hint) const noexcept {
  if (hint.segment >= count_) return false;
  const Lock lock(mutex_);
  return segments_[hint.segment].generation == hint.generation;
}

void SegmentTable::look_at(Number number) {
  const auto file = files_.open(number);
  std::optional<SegmentHeader> header;
  if (file) header = files_.header_of(*file);
  if (!header) {
    const Lock lock(mutex_);
    segments_[number] = {};
    return;
  }
  const std::uint64_t uses = files_.uses_of(*file);
  const Lock lock(mutex_);
  Segment& segment = segments_[number];
  if (header->generation != segment.generation || uses != segment.uses) segment.last_used = policy_.now();
  segment.uses = uses;
  if (header->generation == segment.generation && !header->is_full) return;  // its writer knows better
  segment.generation = header->generation;
  segment.records = header->records;
  segment.payload_bytes = header->payload_bytes;
}

bool SegmentTable::may_go(Number number) {
  const auto may = [&] {
    const Lock lock(mutex_);
    return policy_.may_go(segments_[number].last_used);
  };
  if (!may()) return false;
  look_at(number);
  return may();
}

void SegmentTable::count_miss(const ChunkKey& key, std::uint64_t bytes) noexcept {
  const Lock lock(mutex_);
  add_miss(key, bytes);
}

void SegmentTable::count_reads(std::span<const WantedRecord> wanted, std::span<const LocatedRecord> located) noexcept {
  std::vector<Number> much_used;
  {
    const Lock lock(mutex_);
    for (const WantedRecord& one : wanted)
      if (!one.found) add_miss(one.key, one.to.size());
    for (const LocatedRecord& one : located) {
      if (!one.wanted->found) {
        ++counts_.damaged;
        continue;
      }
      ++lookups_;
      add(counts_.hits, 1, one.wanted->to.size());
      Segment& segment = segments_[one.hint.segment];
      segment.last_used = policy_.hit(segment.last_used);
      segment.hit_bytes += one.wanted->to.size();
      if (segment.hit_bytes < segment_bytes_ / kUsesASegment) continue;
      segment.hit_bytes = 0;
      ++segment.uses;
      static_cast<void>(failure_of([&] { much_used.push_back(one.hint.segment); }));
    }
  }
  // Without memory, other processes see fewer uses.
  static_cast<void>(failure_of([&] {
    for (const Number number : much_used)
      if (const auto file = files_.open(number)) files_.add_use(*file);
  }));
}

void SegmentTable::claimed(const SegmentFiles::Writer& writer, const SegmentHeader& evicted) {
  const Lock lock(mutex_);
  segments_[writer.number()] = {writer.generation(), writer.records(), writer.payload_bytes(), policy_.now(), 0, 0};
  add(counts_.evicted, evicted.records, evicted.payload_bytes);
}

void SegmentTable::kept(const SegmentFiles::Writer& writer, std::uint64_t bytes) {
  const Lock lock(mutex_);
  Segment& segment = segments_[writer.number()];
  segment.records = writer.records();
  segment.payload_bytes = writer.payload_bytes();
  segment.last_used = policy_.now();
  add(counts_.kept, 1, bytes);
}

void SegmentTable::dropped(std::uint64_t bytes) {
  const Lock lock(mutex_);
  add(counts_.dropped, 1, bytes);
}

void SegmentTable::close_for_a_while() {
  const Lock lock(mutex_);
  closed_until_ = lookups_ + std::max(entries() / kTriesAgainAfter, kLeastTriesAgain);
}

bool SegmentTable::is_open() const noexcept {
  const Lock lock(mutex_);
  return lookups_ >= closed_until_;
}

DiskCounts SegmentTable::counts() const {
  const Lock lock(mutex_);
  return counts_;
}

void SegmentTable::reset_counts() {
  const Lock lock(mutex_);
  counts_ = {};
}

void SegmentTable::add_miss(const ChunkKey& key, std::uint64_t bytes) noexcept {
  ++lookups_;
  add(counts_.misses, 1, bytes);
  policy_.miss(hash_of(key), static_cast<std::size_t>(entries()));
}

std::uint64_t SegmentTable::entries() const noexcept {
  std::uint64_t entries = 0;
  for (const Segment& segment : segments_) entries += segment.records;
  return entries;
}

}  // namespace damacy
