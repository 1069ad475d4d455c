// Preloaded into a program: reads of files whose path ends in $DAMACY_HANG never return, as on a file system that does
// not answer. The first makes the file $DAMACY_HANG_MARK.
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

bool hangs(int fd) {
  const char* const suffix = std::getenv("DAMACY_HANG");
  if (suffix == nullptr) return false;
  char link[32] = "/proc/self/fd/";
  char digits[12];
  int count = 0;
  for (int rest = fd; count == 0 || rest > 0; rest /= 10) digits[count++] = static_cast<char>('0' + rest % 10);
  char* end = link + std::strlen(link);
  while (count > 0) *end++ = digits[--count];
  char path[4096];
  const ssize_t length = ::readlink(link, path, sizeof path);
  const auto size = static_cast<ssize_t>(std::strlen(suffix));
  return length >= size && std::memcmp(path + length - size, suffix, static_cast<std::size_t>(size)) == 0;
}

}  // namespace

extern "C" ssize_t pread(int fd, void* to, std::size_t bytes, off_t offset) {
  if (hangs(fd)) {
    ::close(::open(std::getenv("DAMACY_HANG_MARK"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    for (;;) ::pause();
  }
  return ::syscall(SYS_pread64, fd, to, bytes, offset);
}
