#include "damacy/cache/disk/disk_calls.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace damacy {

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
  return ::flock(fd, LOCK_EX);
}

DiskFile::~DiskFile() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace damacy
