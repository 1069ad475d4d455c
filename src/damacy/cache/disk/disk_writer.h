// Writes entries to the segments of a disk tier, one after the other, on the thread that runs it. Knows the queue and
// which segment is written to; not when an entry is worth keeping, nor who owns the thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "damacy/cache/disk/record_reads.h"
#include "damacy/core/mutex.h"

namespace damacy {

class DiskWriter {
 public:
  // All outlive it. `queue_bytes`: copies of what is to be written.
  DiskWriter(HintFile& hints, SegmentFiles& files, SegmentTable& table, RecordReads& reads, DiskHealth& health,
             std::uint64_t queue_bytes)
      : hints_(hints), files_(files), table_(table), reads_(reads), health_(health), queue_bytes_(queue_bytes) {}

  // Copies the bytes. False: the queue is full, or there is no memory.
  bool push(const ChunkKey& key, std::span<const std::byte> bytes, std::string_view name) noexcept;

  // An entry that waits or is being written is not kept. False: there is none.
  bool forget(const ChunkKey& key) noexcept;

  // Until stop(), and until nothing waits.
  void run() noexcept;
  // Writes what waits for at most `patience`, and waits as long for the end of a call. False: run() has not ended.
  bool stop(std::chrono::milliseconds patience);
  bool wait_written(std::chrono::milliseconds most);  // false if entries still wait

 private:
  using Number = SegmentFiles::Number;
  struct Waiting {
    std::uint64_t charge() const noexcept;
    ChunkKey key;
    std::vector<std::byte> bytes;
    std::string name;
  };

  bool next_to_write(Waiting& next);
  bool end_write(const Waiting& waiting);
  void write(const Waiting& waiting);
  bool take_segment(std::uint64_t bytes);
  bool take_segment(Number number, SegmentFiles::How how);
  void close_segment();
  void find_hints();

  HintFile& hints_;
  SegmentFiles& files_;
  SegmentTable& table_;
  RecordReads& reads_;
  DiskHealth& health_;
  const std::uint64_t queue_bytes_;

  Mutex mutex_;
  Condition changed_;
  std::deque<Waiting> queue_ DAMACY_GUARDED_BY(mutex_);
  std::uint64_t queued_bytes_ DAMACY_GUARDED_BY(mutex_) = 0;
  bool stopping_ DAMACY_GUARDED_BY(mutex_) = false;
  bool writing_ DAMACY_GUARDED_BY(mutex_) = false;
  std::optional<ChunkKey> written_
      DAMACY_GUARDED_BY(mutex_);  // the entry that is being written, unless it is forgotten
  bool ended_ DAMACY_GUARDED_BY(mutex_) = false;

  // The thread's.
  std::optional<SegmentFiles::Writer> segment_;
  Number hand_ = 0;  // the segment whose turn it is
};

}  // namespace damacy
