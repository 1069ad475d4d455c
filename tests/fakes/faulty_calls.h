// System calls whose n-th transfer fails, once or permanently.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <thread>

#include "damacy/core/file_calls.h"

namespace damacy {

class FaultyCalls final : public detail::FileCalls {
 public:
  enum class Kind { error, one_byte, nothing, interrupted, again, late };
  Kind kind = Kind::error;
  std::atomic<std::uint64_t> calls{0};
  std::uint64_t at = 0;  // from 1; 0: never
  bool for_ever = false;

  ssize_t preadv2(int fd, const iovec* to, int count, off_t offset, int flags) override {
    return moved(fd, to, count, offset, flags, /*reads=*/true);
  }
  ssize_t pwritev2(int fd, const iovec* from, int count, off_t offset, int flags) override {
    return moved(fd, from, count, offset, flags, /*reads=*/false);
  }
  void pause(int) override {}
  bool struck() const { return at != 0 && calls >= at; }
  std::uint64_t faults() const { return !struck() ? 0 : for_ever ? calls - at + 1 : 1; }

 private:
  static ssize_t failed(int number) {
    errno = number;
    return -1;
  }

  ssize_t moved(int fd, const iovec* vectors, int count, off_t offset, int flags, bool reads) {
    const auto n = ++calls;
    iovec first = vectors[0];
    if (at != 0 && (for_ever ? n >= at : n == at)) {
      switch (kind) {
        case Kind::error:
          return failed(EIO);
        case Kind::nothing:
          return 0;
        case Kind::again:
          return failed(EAGAIN);
        case Kind::interrupted:  // a permanent one would never end
          if (n == at) return failed(EINTR);
          break;
        case Kind::late:
          for (int i = 0; i < 3; ++i) std::this_thread::yield();
          break;
        case Kind::one_byte:
          first.iov_len = std::min<std::size_t>(first.iov_len, 1);
          vectors = &first;
          count = 1;
      }
    }
    return reads ? FileCalls::preadv2(fd, vectors, count, offset, flags)
                 : FileCalls::pwritev2(fd, vectors, count, offset, flags);
  }
};

}  // namespace damacy
