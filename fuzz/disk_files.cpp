// Files of a disk tier that are any bytes: records and hints parse to what they encode, and a tier that opens them
// gives the bytes of an entry, or none.
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <unistd.h>

#include "damacy/cache/disk/disk_record.h"
#include "damacy/cache/disk/disk_report.h"
#include "damacy/cache/disk/disk_tier.h"
#include "damacy/cache/disk/record_name.h"
#include "damacy/core/error.h"

using namespace damacy;

namespace {

namespace fs = std::filesystem;

void check(bool holds) {
  if (!holds) std::abort();
}

// What was parsed is encoded to the same bytes, except those that mean nothing.
template <class Record, class Parse>
void check_round_trip(std::span<const std::byte> bytes, Parse parse) {
  const std::optional<Record> record = parse(bytes);
  if (!record) return;
  const auto again = parse(std::span<const std::byte>(encode(*record)));
  check(again && *again == *record);
}

constexpr std::uint64_t kSegment = 64 << 10;
constexpr DiskTierSizes kSizes{
    .bytes = 4 * kSegment, .segment_bytes = kSegment, .buckets = 16, .remembered = 64, .queue_bytes = 1 << 20};
constexpr int kEntries = 6;
constexpr const char* kStore = "s3://bucket/vol.zarr";

ChunkKey key_of(int number) {
  ChunkKey key;
  key.words = {static_cast<std::uint64_t>(number) * 0x9e3779b97f4a7c15u, static_cast<std::uint64_t>(number) + 1};
  return key;
}

std::vector<std::byte> bytes_of(int number) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(100 + 333 * number));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(i * 31 + static_cast<std::size_t>(number));
  return bytes;
}

const fs::path& folder() {
  static const fs::path path = fs::temp_directory_path() / ("damacy-fuzz-disk-" + std::to_string(::getpid()));
  return path;
}

// A tier of whole files, which every input damages anew.
const std::vector<std::pair<fs::path, std::string>>& whole_files() {
  static const auto files = [] {
    {
      DiskTier tier({folder().string(), false, kSizes});
      for (int i = 0; i < kEntries; ++i) tier.keep(key_of(i), bytes_of(i), record_name(kStore, std::to_string(i)));
      check(tier.wait_written(std::chrono::seconds(10)));
    }
    std::vector<std::pair<fs::path, std::string>> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder())) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      found.emplace_back(entry.path(), std::string(std::istreambuf_iterator<char>(file), {}));
    }
    std::atexit([] { fs::remove_all(folder()); });
    return found;
  }();
  return files;
}

// Names are those that were kept or none. Removing by name removes exactly these.
void check_report() {
  const auto goes_on = [](std::uint64_t, std::uint64_t) { return true; };
  const std::string directory = folder().string();
  const DiskReport report = look_at_disk_cache(directory, {}, /*verify=*/true, goes_on);
  for (const auto& [uri, share] : report.stores) check(uri == kStore && share.entries <= report.entries);
  const DiskReport below = look_at_disk_cache(directory, kStore, /*verify=*/false, goes_on);
  const DiskCleared cleared = clear_disk_cache(directory, kStore, goes_on);
  check(cleared.entries == below.entries);
  check(look_at_disk_cache(directory, kStore, /*verify=*/false, goes_on).entries == 0);
}

}  // namespace

// The input: pieces of four bytes, a file, a place in it, and bytes that take the place of others; or a cut.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::span input(reinterpret_cast<const std::byte*>(data), size);
  check_round_trip<SegmentHeader>(input, parse_segment_header);
  check_round_trip<RecordHeader>(input, parse_record_header);
  check_round_trip<Hint>(input, parse_hint);
  check_round_trip<IndexHeader>(input, parse_index_header);

  auto files = whole_files();
  for (std::size_t at = 0; at + 4 <= size;) {
    auto& [path, content] = files[data[at] % files.size()];
    const std::size_t place = content.empty() ? 0 : (data[at + 1] + 256u * data[at + 2]) % content.size();
    const std::size_t count = std::min<std::size_t>({data[at + 3] & 0x7fu, size - at - 4, content.size() - place});
    if ((data[at + 3] & 0x80) != 0)
      content.resize(place);
    else
      std::memcpy(content.data() + place, data + at + 4, count);
    at += 4 + count;
  }
  for (const auto& [path, content] : files)
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(content.data(), static_cast<std::streamsize>(content.size()));
  try {
    DiskTier tier({folder().string(), false, kSizes});
    for (int i = 0; i < kEntries; ++i) {
      const std::vector<std::byte> expected = bytes_of(i);
      std::vector<std::byte> out(expected.size());
      DiskTier::Wanted wanted{key_of(i), out};
      tier.read({&wanted, 1});
      check(!wanted.found || out == expected);
    }
    tier.keep(key_of(kEntries), bytes_of(kEntries));
  } catch (const Error&) {  // a directory that cannot be used
  }
  check_report();
  return 0;
}
