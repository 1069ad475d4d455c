#include "damacy/cache/disk/hint_file.h"

#include <cerrno>
#include <cstring>
#include <string>

#include <unistd.h>

#include "damacy/core/error.h"
#include "damacy/core/file_transfer.h"
#include "damacy/core/formatted.h"

namespace damacy {
namespace {

[[noreturn]] void fail(const DiskDirectory& directory, const char* name, const char* what) {
  const int error = errno;
  throw Error(Status::io,
              formatted("disk_cache: cannot {} {}/{}: {}", what, directory.path(), name,
                        std::string_view(std::strerror(error))),
              "disk-cache")
      .with_errno(error);
}

bool move(DiskCalls& calls, int fd, detail::Way way, std::span<std::byte> bytes, std::uint64_t offset) {
  const iovec vector{bytes.data(), bytes.size()};
  const detail::Moved moved = detail::move_vectors(calls, fd, way, {&vector, 1}, offset);
  errno = moved.error;
  return moved.error == 0 && moved.bytes == bytes.size();
}

}  // namespace

HintFile::HintFile(DiskCalls& calls, const DiskDirectory& directory, const IndexHeader& wanted)
    : calls_(calls), header_(wanted) {
  const DiskFile lock = directory.open(calls, kLockName, /*make=*/true);
  if (!lock) fail(directory, kLockName, "open");
  if (calls.wait_for_lock(lock.get()) != 0) {
    if (errno == EWOULDBLOCK) return;
    fail(directory, kLockName, "lock");
  }
  file_ = directory.open(calls, kName, /*make=*/true);
  if (!file_) fail(directory, kName, "open");
  IndexHeaderBytes bytes{};
  if (move(calls, file_.get(), detail::Way::read, bytes, 0)) {
    const auto found = parse_index_header(bytes);
    struct ::stat file{};
    const bool is_whole = found && found->buckets > 0 && found->segment_bytes >= SegmentHeader::kFirstRecord &&
                          found->buckets < (std::uint64_t{1} << 48) && calls.fstat(file_.get(), &file) == 0 &&
                          static_cast<std::uint64_t>(file.st_size) >= bytes_of(found->buckets);
    if (is_whole) header_.segment_bytes = found->segment_bytes;
    if (is_whole && found->buckets >= wanted.buckets / 2) {
      header_ = *found;
      return;
    }
  }
  // Empty, or damaged: hints are found again in the segments.
  if (::ftruncate(file_.get(), 0) != 0 || ::ftruncate(file_.get(), static_cast<off_t>(bytes_of(header_.buckets))) != 0)
    fail(directory, kName, "resize");
  bytes = encode(header_);
  if (!move(calls, file_.get(), detail::Way::write, bytes, 0)) fail(directory, kName, "write");
  is_new_ = true;
}

// Beyond the end of a file that was cut there are no hints.
bool HintFile::read(std::uint64_t offset, Bucket& bucket) const noexcept {
  bucket.fill({});
  return move(calls_, file_.get(), detail::Way::read, bucket, offset) || errno == 0;
}

std::uint64_t HintFile::hints_in(DiskCalls& calls, const DiskFile& file) noexcept {
  IndexHeaderBytes bytes{};
  if (!move(calls, file.get(), detail::Way::read, bytes, 0)) return 0;
  const auto header = parse_index_header(bytes);
  return header ? header->buckets * IndexHeader::kHintsABucket : 0;
}

std::optional<Hint> HintFile::find(const ChunkKey& key) const noexcept {
  const auto found = look_up(key);
  return found ? std::optional(found->hint) : std::nullopt;
}

bool HintFile::remove(const ChunkKey& key) noexcept {
  const auto found = look_up(key);
  HintBytes none{};
  return found && move(calls_, file_.get(), detail::Way::write, none, found->offset);
}

std::optional<HintFile::Found> HintFile::look_up(const ChunkKey& key) const noexcept {
  Bucket bucket;
  if (!read(offset_of(key), bucket)) return std::nullopt;
  for (std::size_t at = 0; at < bucket.size(); at += Hint::kBytes) {
    std::uint64_t tag = 0;
    for (std::size_t i = 0; i < sizeof tag; ++i)
      tag |= static_cast<std::uint64_t>(bucket[at + i]) << (8 * i);  // as parse_hint(), before it sums all bytes up
    if (tag != key.words[1]) continue;
    if (const auto hint = parse_hint(std::span(bucket).subspan(at, Hint::kBytes)))
      return Found{*hint, offset_of(key) + at};
  }
  return std::nullopt;
}

bool HintFile::put(const ChunkKey& key, const Hint& hint, const IsCurrent& is_current) noexcept {
  const std::uint64_t offset = offset_of(key);
  Bucket bucket;
  if (!read(offset, bucket)) return false;
  std::optional<std::size_t> same, unused, old;
  for (std::size_t i = 0; i < IndexHeader::kHintsABucket; ++i) {
    const auto there = parse_hint(std::span(bucket).subspan(i * Hint::kBytes, Hint::kBytes));
    if (!there)
      unused = unused.value_or(i);
    else if (there->tag == hint.tag)
      same = i;
    else if (!old && !is_current(*there))
      old = i;
  }
  const std::size_t any = key.words[1] % IndexHeader::kHintsABucket;
  const std::size_t place = same ? *same : unused ? *unused : old ? *old : any;
  HintBytes bytes = encode(hint);
  return move(calls_, file_.get(), detail::Way::write, bytes, offset + place * Hint::kBytes);
}

}  // namespace damacy
