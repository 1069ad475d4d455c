// The system calls that file I/O makes, as a seam: tests make them fail, stop short or run out of descriptors.
// Knows the calls and errno; no policy.
#pragma once

#include <cstddef>

#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

namespace damacy::detail {

// Each returns what the system call does, with errno.
class FileCalls {
 public:
  virtual ~FileCalls() = default;
  virtual int open(const char* path);  // for reading; never blocks on what it finds
  virtual int close(int fd) noexcept;
  virtual int stat(const char* path, struct ::stat* found);
  virtual int fstat(int fd, struct ::stat* found);
  virtual ssize_t pread(int fd, void* to, std::size_t bytes, off_t offset);
  virtual ssize_t preadv2(int fd, const iovec* to, int count, off_t offset, int flags);
  virtual ssize_t pwritev2(int fd, const iovec* from, int count, off_t offset, int flags);
  virtual int openat(int dir_fd, const char* path, int flags, mode_t mode);
  virtual void pause(int ms);  // before another try
};

}  // namespace damacy::detail
