// System calls that now and then stop short, are interrupted, ask to come again or fail. Knows a seed.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "damacy/core/file_calls.h"

namespace damacy::soak {

class RandomCalls final : public detail::FileCalls {
 public:
  explicit RandomCalls(std::uint64_t seed) noexcept : state_(seed) {}
  ssize_t preadv2(int fd, const iovec* to, int count, off_t offset, int flags) override {
    iovec first = to[0];
    const int trouble = next(first, to, count);
    return trouble != 0 ? failed(trouble) : FileCalls::preadv2(fd, to, count, offset, flags);
  }
  ssize_t pwritev2(int fd, const iovec* from, int count, off_t offset, int flags) override {
    iovec first = from[0];
    const int trouble = next(first, from, count);
    return trouble != 0 ? failed(trouble) : FileCalls::pwritev2(fd, from, count, offset, flags);
  }
  void pause(int) override {}

 private:
  static ssize_t failed(int number) noexcept {
    errno = number;
    return -1;
  }
  // An errno, or 0; perhaps with less to move than was asked for.
  int next(iovec& first, const iovec*& vectors, int& count) noexcept {
    const std::uint64_t x = (state_.fetch_add(0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9) >> 33;
    if (x % 200 == 0) return EIO;
    if (x % 20 == 1) return EINTR;
    if (x % 20 == 2) return EAGAIN;
    const bool is_direct = first.iov_len % 512 == 0;  // a direct transfer that stops inside a block ends the file
    if (x % 10 == 3 && first.iov_len > 1 && !is_direct) {
      first.iov_len = 1 + x % (first.iov_len - 1);
      vectors = &first;
      count = 1;
    }
    return 0;
  }

  std::atomic<std::uint64_t> state_;
};

}  // namespace damacy::soak
