// What is in the directory of a disk tier, for `damacy cache`: looks at its files, which processes may be using, and
// removes them. Knows the files of a tier and the names of records; not what the entries are, whose keys are hashes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace damacy {

// Of one store.
struct DiskShare {
  std::uint64_t entries = 0, entry_bytes = 0;
  double uses = 0;  // the segments' uses, divided by how much of each segment's entries are the store's
};

struct DiskReport {
  std::string path;                            // of the tier's own directory
  std::uint64_t segments = 0;                  // files that hold entries
  std::uint64_t segment_bytes = 0;             // of each
  std::uint64_t file_bytes = 0;                // on the disk, with the index
  std::uint64_t entries = 0, entry_bytes = 0;  // of uris below the prefix
  std::map<std::string, DiskShare> stores;     // these entries by the uri of the store that was opened
  std::uint64_t unnamed = 0;  // entries without a uri, which an earlier version kept or whose name is damaged
  std::uint64_t uses = 0;     // segments' own counts of the times that they were read, by all processes
  std::uint64_t hints = 0;    // entries that the index has room for
  std::uint64_t checked = 0;  // entries whose bytes were read
  std::uint64_t damaged = 0;  // of these: the checksum is wrong, or they cannot be read
};

// Called before each segment, with the number of segments that were visited and of all. False ends the work.
using DiskProgress = std::function<bool(std::uint64_t visited, std::uint64_t segments)>;

// `verify` reads the entries below `prefix` and checks their checksums. An empty prefix: all entries. Throws
// Error(notfound, "disk-cache") if there is no tier in `directory`, and as DiskDirectory.
[[nodiscard]] DiskReport look_at_disk_cache(const std::string& directory, const std::string& prefix, bool verify,
                                            const DiskProgress& progress);

// Removes the files of the tier, and no others. Processes that use it go on without what was kept.
struct DiskCleared {
  std::uint64_t segments = 0;  // files
  std::uint64_t entries = 0;   // that were removed one by one, or with the last ones of a file
  std::uint64_t bytes = 0;     // on the disk
};
DiskCleared clear_disk_cache(const std::string& directory, const DiskProgress& progress);
// Removes the entries of uris that are `prefix` or below it.
DiskCleared clear_disk_cache(const std::string& directory, const std::string& prefix, const DiskProgress& progress);

}  // namespace damacy
