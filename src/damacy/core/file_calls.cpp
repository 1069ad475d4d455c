// The system calls as they are.
#include "damacy/core/file_calls.h"

#include <chrono>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

namespace damacy::detail {

// O_NONBLOCK: opening a FIFO or device must not block the thread. fstat then shows the file type.
int FileCalls::open(const char* path) {
  return ::open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
}
int FileCalls::close(int fd) noexcept {
  return ::close(fd);
}
int FileCalls::stat(const char* path, struct ::stat* found) {
  return ::stat(path, found);
}
int FileCalls::fstat(int fd, struct ::stat* found) {
  return ::fstat(fd, found);
}
ssize_t FileCalls::pread(int fd, void* to, std::size_t bytes, off_t offset) {
  return ::pread(fd, to, bytes, offset);
}
ssize_t FileCalls::preadv2(int fd, const iovec* to, int count, off_t offset, int flags) {
  return ::preadv2(fd, to, count, offset, flags);
}
ssize_t FileCalls::pwritev2(int fd, const iovec* from, int count, off_t offset, int flags) {
  return ::pwritev2(fd, from, count, offset, flags);
}
int FileCalls::openat(int dir_fd, const char* path, int flags, mode_t mode) {
  return ::openat(dir_fd, path, flags, mode);
}
void FileCalls::pause(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

}  // namespace damacy::detail
