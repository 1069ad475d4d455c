// The index of a disk tier: a file of buckets of hints, which say where records probably are. Nothing relies on it: a
// hint that is lost, torn or wrong is a miss. Knows hints; reads no records. Thread-safe, and shared by processes
// without a lock.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "damacy/cache/disk/disk_directory.h"
#include "damacy/cache/disk/disk_record.h"

namespace damacy {

class HintFile {
 public:
  static constexpr const char* kName = "index";
  static constexpr const char* kLockName = "lock";  // held while the index is made or removed

  // Takes the index that is there if it has half of the `wanted` buckets. Otherwise makes an empty one, with the
  // segment size of the old one. If a process that is stopped holds the lock, there is no index. Throws
  // Error(io, "disk-cache").
  HintFile(DiskCalls& calls, const DiskDirectory& directory, const IndexHeader& wanted);

  bool is_there() const noexcept { return static_cast<bool>(file_); }  // else nothing but header() may be called
  bool is_new() const noexcept { return is_new_; }
  const IndexHeader& header() const noexcept { return header_; }

  [[nodiscard]] std::optional<Hint> find(const ChunkKey& key) const noexcept;
  // Replaces a hint of the same key, an unused one, or one for which `is_current` is false; else any. False, with
  // errno: not written.
  using IsCurrent = std::function<bool(const Hint&)>;
  bool put(const ChunkKey& key, const Hint& hint, const IsCurrent& is_current) noexcept;
  // False: there is none.
  bool remove(const ChunkKey& key) noexcept;

  // How many hints fit into an index; 0: it is damaged.
  static std::uint64_t hints_in(DiskCalls& calls, const DiskFile& file) noexcept;

  static constexpr std::uint64_t bytes_of(std::uint64_t buckets) noexcept {
    return IndexHeader::kFirstBucket + buckets * IndexHeader::kBucketBytes;
  }

 private:
  using Bucket = std::array<std::byte, IndexHeader::kBucketBytes>;
  std::uint64_t offset_of(const ChunkKey& key) const noexcept {
    return IndexHeader::kFirstBucket + key.words[0] % header_.buckets * IndexHeader::kBucketBytes;
  }
  struct Found {
    Hint hint;
    std::uint64_t offset;  // in the file
  };
  std::optional<Found> look_up(const ChunkKey& key) const noexcept;
  bool read(std::uint64_t offset, Bucket& bucket) const noexcept;

  DiskCalls& calls_;
  DiskFile file_;
  IndexHeader header_;
  bool is_new_ = false;
};

}  // namespace damacy
