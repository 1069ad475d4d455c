// Asked window by window, so that a large file needs no large table.
#include "damacy/fileio/page_cache.h"

#include <algorithm>
#include <cerrno>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "damacy/core/formatted.h"
#include "damacy/fileio/file.h"

namespace damacy {
namespace {

constexpr std::uint64_t kWindow = std::uint64_t{1} << 30;

[[noreturn]] void fail(const char* call, int fd, std::uint64_t offset, std::uint64_t length) {
  throw FileError::failed(call, errno, formatted("descriptor {}", fd), offset, length, 0, "");
}

std::uint64_t resident_in(int fd, std::uint64_t offset, std::uint64_t length, std::uint64_t page) {
  void* const mapped = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (mapped == MAP_FAILED) fail("mmap", fd, offset, length);
  std::vector<unsigned char> pages((length + page - 1) / page);
  const int result = ::mincore(mapped, length, pages.data());
  const int number = errno;
  ::munmap(mapped, length);
  errno = number;
  if (result != 0) fail("mincore", fd, offset, length);
  return static_cast<std::uint64_t>(std::count_if(pages.begin(), pages.end(), [](auto p) { return (p & 1) != 0; }));
}

}  // namespace

CachedPages cached_pages(int fd, std::uint64_t offset, std::uint64_t length) {
  struct ::stat found{};
  if (::fstat(fd, &found) != 0) fail("fstat", fd, offset, length);
  const auto size = static_cast<std::uint64_t>(found.st_size);
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  if (offset >= size) return {};
  const std::uint64_t end = length == 0 || length > size - offset ? size : offset + length;
  CachedPages cached;
  for (std::uint64_t at = offset / page * page; at < end; at += kWindow) {
    const std::uint64_t some = std::min(kWindow, end - at);
    cached.resident += resident_in(fd, at, some, page);
    cached.total += (some + page - 1) / page;
  }
  return cached;
}

void drop_cached_pages(int fd, std::uint64_t offset, std::uint64_t length, bool sync_first) {
  if (sync_first && ::fdatasync(fd) != 0 && errno != EINVAL && errno != EROFS) fail("fdatasync", fd, offset, length);
  const int number = ::posix_fadvise(fd, static_cast<off_t>(offset), static_cast<off_t>(length), POSIX_FADV_DONTNEED);
  if (number == 0) return;
  errno = number;
  fail("posix_fadvise", fd, offset, length);
}

}  // namespace damacy
