// What a process knows of the segments of a disk tier: what they hold, when they were used, and so which of them may be
// used again; and the tier's counts. Knows what was looked up and written; reads and writes no records. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "damacy/cache/disk/disk_record.h"
#include "damacy/cache/disk/segment_files.h"
#include "damacy/cache/reuse_policy.h"
#include "damacy/core/mutex.h"

namespace damacy {

struct DiskCount {
  std::int64_t entries = 0, bytes = 0;
  friend bool operator==(const DiskCount&, const DiskCount&) = default;
};
struct DiskCounts {
  DiskCount hits, misses, kept, evicted;
  DiskCount dropped;         // there was no time to write them
  std::int64_t damaged = 0;  // of the misses: a hint led to bytes that are not the entry's
};

// A record that is read: fills `to`, or leaves any bytes there.
struct WantedRecord {
  ChunkKey key;
  std::span<std::byte> to;
  bool found = false;
};
struct LocatedRecord {
  Hint hint;
  WantedRecord* wanted;
};

class SegmentTable {
 public:
  using Number = SegmentFiles::Number;

  // Looks at all segments. `remembered`: misses.
  SegmentTable(SegmentFiles& files, Number count, std::uint64_t segment_bytes, std::uint64_t remembered);

  Number count() const noexcept { return count_; }
  bool exists(Number number) const;
  std::uint64_t existing() const;
  bool is_current(const Hint& hint) const noexcept;
  // Reads a segment's header from the disk.
  void look_at(Number number);
  // Whether a segment may be used again. Other processes may have used it since, or replaced it.
  bool may_go(Number number);

  // -- look-ups --
  void count_miss(const ChunkKey& key, std::uint64_t bytes) noexcept;
  // Those that were wanted, of which `located` had a hint.
  void count_reads(std::span<const WantedRecord> wanted, std::span<const LocatedRecord> located) noexcept;

  // -- writing --
  void claimed(const SegmentFiles::Writer& writer, const SegmentHeader& evicted);
  void kept(const SegmentFiles::Writer& writer, std::uint64_t bytes);
  void dropped(std::uint64_t bytes);
  // No segment may go: entries are refused until many more are looked up.
  void close_for_a_while();
  bool is_open() const noexcept;

  DiskCounts counts() const;
  void reset_counts();

 private:
  struct Segment {
    std::uint64_t generation = 0;  // 0: there is none
    std::uint64_t records = 0, payload_bytes = 0;
    ReusePolicy::Time last_used = 0;
    std::uint64_t hit_bytes = 0;  // that other processes do not see yet
    std::uint64_t uses = 0;       // of all processes, when it was looked at
  };
  void add_miss(const ChunkKey& key, std::uint64_t bytes) noexcept DAMACY_REQUIRES(mutex_);
  std::uint64_t entries() const noexcept DAMACY_REQUIRES(mutex_);

  SegmentFiles& files_;
  const Number count_;
  const std::uint64_t segment_bytes_;
  mutable Mutex mutex_;
  ReusePolicy policy_ DAMACY_GUARDED_BY(mutex_);
  std::vector<Segment> segments_ DAMACY_GUARDED_BY(mutex_);
  DiskCounts counts_ DAMACY_GUARDED_BY(mutex_);
  std::uint64_t lookups_ DAMACY_GUARDED_BY(mutex_) = 0;
  std::uint64_t closed_until_ DAMACY_GUARDED_BY(mutex_) = 0;  // look-ups; before, no segment may go
};

}  // namespace damacy
