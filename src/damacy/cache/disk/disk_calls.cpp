#include "damacy/cache/disk/disk_calls.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace damacy {
namespace {

constexpr int kPauseMs = 10, kMostWaitMs = 5000;

}  // namespace

int DiskCalls::allocate(int fd, off_t bytes) {
  const int result = ::fallocate(fd, 0, 0, bytes);
  if (result == 0 || (errno != EOPNOTSUPP && errno != ENOSYS)) return result;
  return ::ftruncate(fd, bytes);
}

int DiskCalls::free_range(int fd, off_t offset, off_t bytes) {
  return ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, bytes);
}

int DiskCalls::lock(int fd) {
  return ::flock(fd, LOCK_EX | LOCK_NB);
}

int DiskCalls::wait_for_lock(int fd) {
  for (int waited_ms = 0;; waited_ms += kPauseMs) {
    if (lock(fd) == 0) return 0;
    if ((errno != EWOULDBLOCK && errno != EINTR) || waited_ms >= kMostWaitMs) return -1;
    pause(kPauseMs);
  }
}

DiskFile::~DiskFile() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace damacy
