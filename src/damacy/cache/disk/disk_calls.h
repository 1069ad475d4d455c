// The system calls of the disk tier, as a seam: tests make them fail. Knows the calls and errno; no policy.
#pragma once

#include <utility>

#include "damacy/core/file_calls.h"

namespace damacy {

// Each returns what the system call does, with errno.
class DiskCalls : public detail::FileCalls {
 public:
  virtual int allocate(int fd, off_t bytes);  // with room on the disk, where the file system can promise it
  virtual int free_range(int fd, off_t offset, off_t bytes);  // of the file, which keeps its size
  virtual int lock(int fd);  // exclusive, without waiting: EWOULDBLOCK if another has it
  // Its holders need it for moments. The same if one holds it for seconds, because it is stopped.
  int wait_for_lock(int fd);
};

// Owns an open file of the tier; closes it.
class DiskFile {
 public:
  DiskFile() noexcept = default;
  explicit DiskFile(int fd) noexcept : fd_(fd) {}
  DiskFile(DiskFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  DiskFile& operator=(DiskFile other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~DiskFile();
  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

}  // namespace damacy
