// Reads records of a disk tier to their places, each found by its hint and checked: whatever is wrong is a miss. Knows
// hints, segments and records; writes nothing. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "damacy/cache/disk/disk_health.h"
#include "damacy/cache/disk/hint_file.h"
#include "damacy/cache/disk/segment_table.h"

namespace damacy {

class RecordReads {
 public:
  // All outlive it.
  RecordReads(DiskCalls& calls, const HintFile& hints, SegmentFiles& files, SegmentTable& table, DiskHealth& health)
      : calls_(calls), hints_(hints), files_(files), table_(table), health_(health) {}

  [[nodiscard]] std::optional<Hint> find(const ChunkKey& key, std::uint64_t bytes) const noexcept;
  // Not counted. False: it is not there, and any bytes are in `to`.
  bool read(const Hint& hint, const ChunkKey& key, std::span<std::byte> to) noexcept;
  bool read_any(const ChunkKey& key, std::size_t most, std::string& to) noexcept;
  // Counts hits and misses.
  void read(std::span<WantedRecord> wanted) noexcept;

 private:
  void read_together(std::span<LocatedRecord> located) noexcept;

  DiskCalls& calls_;
  const HintFile& hints_;
  SegmentFiles& files_;
  SegmentTable& table_;
  DiskHealth& health_;
};

}  // namespace damacy
