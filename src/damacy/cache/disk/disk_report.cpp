#include "damacy/cache/disk/disk_report.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>
#include <vector>

#include <sys/stat.h>

#include "damacy/cache/disk/disk_calls.h"
#include "damacy/cache/disk/disk_directory.h"
#include "damacy/cache/disk/disk_tier.h"
#include "damacy/cache/disk/hint_file.h"
#include "damacy/cache/disk/record_name.h"
#include "damacy/cache/disk/segment_files.h"
#include "damacy/codec/chain.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/store/store.h"

namespace damacy {
namespace {

using Number = SegmentFiles::Number;

// Of a tier that exists: DiskDirectory would make one.
DiskDirectory opened(const std::string& directory) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(formatted("{}/{}", absolute_path(directory), DiskDirectory::kName), ignored))
    throw Error(Status::notfound,
                formatted("{} has no disk cache: it is a directory that was given as disk_cache or DAMACY_DISK_CACHE",
                          directory),
                "disk-cache");
  return {directory, /*shared=*/true};
}

std::uint64_t bytes_on_disk(DiskCalls& calls, const DiskFile& file) {
  struct ::stat found{};
  return calls.fstat(file.get(), &found) == 0 ? static_cast<std::uint64_t>(found.st_blocks) * 512 : 0;
}

// Whether the bytes of a record are those that were written.
bool is_whole(DiskCalls& calls, const DiskFile& file, const RecordHeader& record, std::uint64_t offset,
              std::vector<std::byte>& bytes) {
  bytes.resize(record.length);
  const iovec vector{bytes.data(), bytes.size()};
  bool whole = false;
  const int error = read_vectors(calls, file, {&vector, 1}, offset + RecordHeader::kBytes, whole);
  return error == 0 && whole && crc32c(bytes) == record.checksum;
}

// Adds what a segment holds to a report.
class SegmentLook {
 public:
  SegmentLook(DiskCalls& calls, SegmentFiles& files, std::string_view prefix, bool verify, DiskReport& report)
      : calls_(calls), files_(files), prefix_(prefix), verify_(verify), report_(report) {}

  void look_at(const DiskFile& file) {
    ++report_.segments;
    report_.file_bytes += bytes_on_disk(calls_, file);
    const auto header = files_.header_of(file);
    if (!header) return;
    report_.segment_bytes = header->segment_bytes;
    std::map<std::string, std::uint64_t> bytes_of_stores;
    std::uint64_t all_bytes = 0;
    files_.scan(file, header->generation, [&](const RecordHeader& record, std::uint64_t offset) {
      all_bytes += record.length;
      if (const auto store = store_of(file, record, offset)) bytes_of_stores[*store] += record.length;
    });
    const std::uint64_t uses = files_.uses_of(file);
    report_.uses += uses;
    for (const auto& [store, bytes] : bytes_of_stores)
      report_.stores[store].uses +=
          static_cast<double>(uses) * static_cast<double>(bytes) / static_cast<double>(all_bytes);
  }

 private:
  // Counts the record. Empty: it has no name, or is not below the prefix.
  std::optional<std::string> store_of(const DiskFile& file, const RecordHeader& record, std::uint64_t offset) {
    const std::string name = files_.record_name_of(file, record, offset);
    const RecordName parsed = parse_record_name(name);
    if (name.empty()) ++report_.unnamed;
    if (!prefix_.empty() && (name.empty() || !is_below(parsed, prefix_))) return std::nullopt;
    count(file, record, offset);
    if (name.empty()) return std::nullopt;
    DiskShare& share = report_.stores[std::string(parsed.store)];
    ++share.entries;
    share.entry_bytes += record.length;
    return std::string(parsed.store);
  }

  void count(const DiskFile& file, const RecordHeader& record, std::uint64_t offset) {
    ++report_.entries;
    report_.entry_bytes += record.length;
    if (!verify_) return;
    ++report_.checked;
    if (!is_whole(calls_, file, record, offset, bytes_)) ++report_.damaged;
  }

  DiskCalls& calls_;
  SegmentFiles& files_;
  const std::string_view prefix_;
  const bool verify_;
  DiskReport& report_;
  std::vector<std::byte> bytes_;
};

struct FoundRecord {
  RecordHeader header;
  std::uint64_t offset;
};

// The records of a segment that are below the prefix. `has_others`: there are records that are not.
std::vector<FoundRecord> find_below(const SegmentFiles& files, const DiskFile& file, std::uint64_t generation,
                                    std::string_view prefix, bool& has_others) {
  std::vector<FoundRecord> found;
  files.scan(file, generation, [&](const RecordHeader& record, std::uint64_t offset) {
    const std::string name = files.record_name_of(file, record, offset);
    if (!name.empty() && is_below(parse_record_name(name), prefix))
      found.push_back({record, offset});
    else
      has_others = true;
  });
  return found;
}

// Removes these records; the whole segment if there are no others. While this has the segment's lock, no writer uses
// the segment again. One that has the lock now appends behind these records, unless the segment is full meanwhile.
void clear_segment(DiskCalls& calls, SegmentFiles& files, Number number, std::string_view prefix,
                   DiskCleared& cleared) {
  const auto file = files.open(number);
  const bool is_locked = file && files.lock(*file);
  const auto header = file ? files.header_of(*file) : std::nullopt;
  if (!header) return;
  bool has_others = false;
  const std::vector<FoundRecord> found = find_below(files, *file, header->generation, prefix, has_others);
  if (found.empty()) return;
  const std::uint64_t before = bytes_on_disk(calls, *file);
  if (is_locked && !has_others) {
    files.remove(number);
    ++cleared.segments;
    cleared.entries += found.size();
    cleared.bytes += before;
    return;
  }
  for (const FoundRecord& record : found) {
    const auto now = is_locked ? header : files.header_of(*file);
    if (!now || now->generation != header->generation) break;
    cleared.entries += files.remove_record(*file, record.header, record.offset);
  }
  cleared.bytes += before - std::min(before, bytes_on_disk(calls, *file));
}

// Visits the segments that exist. False: `progress` ended it.
template <class Visit>
bool each_segment(SegmentFiles& files, const DiskProgress& progress, Visit visit) {
  const auto numbers = files.existing();
  std::uint64_t visited = 0;
  for (const Number number : numbers) {
    if (!progress(visited++, numbers.size())) return false;
    const auto file = files.open(number);
    if (!file) continue;
    visit(number, *file);
    files.forget(number);
  }
  return progress(visited, numbers.size());
}

}  // namespace

DiskReport look_at_disk_cache(const std::string& directory, const std::string& prefix, bool verify,
                              const DiskProgress& progress) {
  const DiskDirectory place = opened(directory);
  DiskCalls calls;
  DiskReport report;
  report.path = place.path();
  if (const DiskFile index = place.open(calls, HintFile::kName, /*make=*/false)) {
    report.file_bytes += bytes_on_disk(calls, index);
    report.hints = HintFile::hints_in(calls, index);
  }
  SegmentFiles files(calls, place, 0);
  SegmentLook look(calls, files, prefix, verify, report);
  each_segment(files, progress, [&](Number, const DiskFile& file) { look.look_at(file); });
  return report;
}

DiskCleared clear_disk_cache(const std::string& directory, const DiskProgress& progress) {
  const DiskDirectory place = opened(directory);
  DiskCalls calls;
  const DiskFile lock = place.open(calls, HintFile::kLockName, /*make=*/true);
  if (!lock || calls.wait_for_lock(lock.get()) != 0)
    throw Error(Status::io, formatted("disk_cache: cannot lock {}", place.path()), "disk-cache").with_errno(errno);
  SegmentFiles files(calls, place, 0);
  DiskCleared cleared;
  const bool is_empty = each_segment(files, progress, [&](Number number, const DiskFile& file) {
    ++cleared.segments;
    cleared.bytes += bytes_on_disk(calls, file);
    files.remove(number);
  });
  if (is_empty) place.remove(HintFile::kName);
  return cleared;
}

DiskCleared clear_disk_cache(const std::string& directory, const std::string& prefix, const DiskProgress& progress) {
  const DiskDirectory place = opened(directory);
  DiskCalls calls;
  SegmentFiles files(calls, place, 0);
  DiskCleared cleared;
  each_segment(files, progress,
               [&](Number number, const DiskFile&) { clear_segment(calls, files, number, prefix, cleared); });
  return cleared;
}

}  // namespace damacy
