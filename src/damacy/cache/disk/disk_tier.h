// Keeps bytes under keys in files on a local disk, for all processes of a machine that use the same directory. A record
// proves itself: whatever is wrong with the files is a miss. Reading takes no lock of other processes; one thread
// writes (`disk_writer`). Knows keys and files; not what the bytes are, nor where else they may be had. Thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "damacy/cache/disk/disk_calls.h"
#include "damacy/cache/disk/disk_record.h"
#include "damacy/cache/disk/segment_table.h"
#include "damacy/core/thread.h"

namespace damacy {

// How the bytes of a tier are divided.
struct DiskTierSizes {
  static constexpr std::uint64_t kLeastBytes = std::uint64_t{256} << 20;
  static constexpr std::uint64_t kLeastSegment = std::uint64_t{64} << 20;
  static constexpr std::uint64_t kMostSegments = 4096;
  static constexpr std::uint64_t kBytesAHint = 8 << 10;  // entries may be smaller; then some are forgotten
  static constexpr std::uint64_t kLargestShare = 8;      // an entry may take an 8th

  std::uint64_t bytes = 0;
  std::uint64_t segment_bytes = 0;  // of a directory without segments; others have their own
  std::uint64_t buckets = 0;
  std::uint64_t remembered = 0;   // misses
  std::uint64_t queue_bytes = 0;  // copies of what is to be written
  std::uint64_t memory() const noexcept;
};
// `buffer_bytes`: the memory of reads, of which at most an 8th is taken.
[[nodiscard]] DiskTierSizes disk_tier_sizes(std::uint64_t bytes, std::uint64_t buffer_bytes) noexcept;

struct DiskTierSettings {
  std::string directory;
  bool shared = false;  // with other users of its group
  DiskTierSizes sizes;
  std::shared_ptr<DiskCalls> calls = std::make_shared<DiskCalls>();
};

class DiskTier {
 public:
  using Count = DiskCount;
  using Counts = DiskCounts;
  using Wanted = WantedRecord;

  // Throws as DiskDirectory. Off from the start if a process that is stopped holds the directory's lock.
  explicit DiskTier(DiskTierSettings settings);
  ~DiskTier();  // writes what waits to be written, for a second at most
  DiskTier(const DiskTier&) = delete;
  DiskTier& operator=(const DiskTier&) = delete;

  // A look-up: whether an entry is probably there. If not, it is counted as a miss; else read() counts it.
  [[nodiscard]] bool find(const ChunkKey& key, std::uint64_t bytes) noexcept;
  // Whether an entry would probably be kept.
  [[nodiscard]] bool has_room_for(std::uint64_t bytes) const noexcept;

  // Fills each `to`, or leaves any bytes there. Counts hits and misses.
  void read(std::span<Wanted> wanted) noexcept;
  // An entry of unknown size, at most `most` bytes. Not counted. False: absent, and `to` is undefined.
  bool read_any(const ChunkKey& key, std::size_t most, std::string& to) noexcept;

  // Copies the bytes of an entry that was not there, and writes them in the background if there is room. `name` is for
  // those who look at the directory (`disk_report`), and must hold no secret; it is cut after RecordHeader::kMostName.
  void keep(const ChunkKey& key, std::span<const std::byte> bytes, std::string_view name = {}) noexcept;

  // The entry is not what it should be. False: there was none, and none waited to be written.
  bool forget(const ChunkKey& key) noexcept;

  // Ends writing as the destructor does. Later entries are not kept.
  void finish() noexcept;

  [[nodiscard]] Counts counts() const;
  void reset_counts();
  // Bytes and segments on the disk that this process knows.
  struct Size {
    std::uint64_t segments = 0, segment_bytes = 0;
  };
  [[nodiscard]] Size size() const;
  bool is_off() const noexcept;                       // after an error of the disk
  bool wait_written(std::chrono::milliseconds most);  // for tests: false if entries still wait

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
  Thread writer_;
};

}  // namespace damacy
