// The segments of a disk tier: files of one size that records are appended to, and that are used again as a whole. A
// process that writes to a segment holds a lock on its file, which the kernel releases when the process ends. Readers
// take no lock. Knows files and records; not which segment should be used again. Thread-safe, except for Writer.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "damacy/cache/disk/disk_directory.h"
#include "damacy/cache/disk/disk_record.h"
#include "damacy/core/mutex.h"

namespace damacy {

class SegmentFiles {
 public:
  using Number = std::uint32_t;
  static constexpr std::size_t kOpenFiles = 256;

  SegmentFiles(DiskCalls& calls, const DiskDirectory& directory, std::uint64_t segment_bytes)
      : calls_(calls), directory_(directory), segment_bytes_(segment_bytes) {}

  // All that exist, in order. Throws as DiskDirectory::names().
  std::vector<Number> existing() const;
  // Of an existing segment; kept open for reuse. Null with errno.
  std::shared_ptr<const DiskFile> open(Number number);
  void forget(Number number);  // another file may have its name now
  // Empty: damaged, or cannot be read.
  std::optional<SegmentHeader> header_of(const DiskFile& file) const;
  // What readers of all processes added.
  std::uint64_t uses_of(const DiskFile& file) const;
  void add_use(const DiskFile& file) const;
  // The name of a record that scan() found; empty if it has none, or if it is damaged.
  std::string record_name_of(const DiskFile& file, const RecordHeader& header, std::uint64_t offset) const;
  // The record's entry is found no more, and its bytes are no longer on the disk where the file system can free part of
  // a file. If a writer uses the segment again meanwhile, one of its records may be lost. False: not removed.
  bool remove_record(const DiskFile& file, const RecordHeader& header, std::uint64_t offset) const;
  // The right to write to a segment, until all owners of the file have let it go. False: it has a writer.
  bool lock(const DiskFile& file) const;
  void remove(Number number);
  void remove_from(Number first);  // all segments from this number on

  // Calls `visit` for each record of the segment's generation that was not removed, as far as headers are whole.
  // Returns the end of the last one.
  using Visit = std::function<void(const RecordHeader&, std::uint64_t offset)>;
  std::uint64_t scan(const DiskFile& file, std::uint64_t generation, const Visit& visit) const;

  // The right to write to a segment.
  class Writer {
   public:
    Number number() const noexcept { return number_; }
    std::uint64_t generation() const noexcept { return header_.generation; }
    std::uint64_t records() const noexcept { return header_.records; }
    std::uint64_t payload_bytes() const noexcept { return header_.payload_bytes; }
    // `bytes`: of the record, with header and padding.
    bool has_room_for(std::uint64_t bytes) const noexcept { return end_ + bytes <= header_.segment_bytes; }
    // Empty with errno.
    std::optional<Hint> append(const ChunkKey& key, std::span<const std::byte> bytes, std::string_view name);
    void close();  // it is full

   private:
    friend class SegmentFiles;
    Writer(SegmentFiles& files, Number number, DiskFile file) noexcept
        : files_(&files), number_(number), file_(std::move(file)) {}
    bool write_header();

    SegmentFiles* files_;
    Number number_;
    DiskFile file_;
    SegmentHeader header_;
    std::uint64_t end_ = 0;
  };
  enum class How { make, go_on, use_again };
  // make: a segment that does not exist. go_on: one that is not full and has no writer. use_again: any that has no
  // writer; `evicted` gets what it held. Empty: not possible; errno is 0 unless the disk is the cause.
  std::optional<Writer> claim(Number number, How how, SegmentHeader* evicted = nullptr);

 private:
  struct Kept {
    Number number;
    std::shared_ptr<const DiskFile> file;
  };
  std::optional<Writer> go_on(Writer writer, const SegmentHeader& header);

  DiskCalls& calls_;
  const DiskDirectory& directory_;
  const std::uint64_t segment_bytes_;
  Mutex mutex_;
  std::list<Kept> kept_ DAMACY_GUARDED_BY(mutex_);  // the last used first
  std::unordered_map<Number, std::list<Kept>::iterator> places_ DAMACY_GUARDED_BY(mutex_);
};

// Reads all vectors or nothing. Returns errno; 0: `whole` says whether the file has so many bytes.
int read_vectors(DiskCalls& calls, const DiskFile& file, std::span<const iovec> vectors, std::uint64_t offset,
                 bool& whole) noexcept;

}  // namespace damacy
