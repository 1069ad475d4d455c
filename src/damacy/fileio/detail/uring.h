// Many positional transfers by io_uring, through raw system calls. One ring per thread. Knows rings and their memory
// order; not what is transferred.
#pragma once

#include <cstdint>
#include <span>

#include <sys/uio.h>

struct io_uring_sqe;
struct io_uring_cqe;

namespace damacy::detail {

class Uring {
 public:
  struct Call {
    int fd = -1;
    bool writes = false;
    std::uint64_t offset = 0;
    std::span<const iovec> vectors;
    std::int64_t result = 0;  // bytes, or minus errno
  };

  // The calling thread's ring; null if io_uring is not available and pread must be used.
  static Uring* of_this_thread();
  explicit Uring(unsigned depth);  // throws Error(io)
  ~Uring();
  Uring(const Uring&) = delete;
  Uring& operator=(const Uring&) = delete;

  // Returns after all calls have ended. The result of calls that the kernel did not accept is minus ECANCELED.
  void run(std::span<Call> calls) noexcept;

 private:
  class Mapping {  // a mapped ring
   public:
    Mapping() = default;
    Mapping(int fd, std::size_t bytes, std::uint64_t offset);
    Mapping& operator=(Mapping&& other) noexcept;
    ~Mapping();
    template <class T>
    T* at(std::uint32_t offset) const noexcept {
      return reinterpret_cast<T*>(static_cast<std::byte*>(memory_) + offset);
    }

   private:
    void* memory_ = nullptr;
    std::size_t bytes_ = 0;
  };

  void push(const Call& call, std::uint64_t index) noexcept;
  std::size_t reap(std::span<Call> calls) noexcept;

  int fd_ = -1;
  unsigned depth_ = 0;
  Mapping submissions_, completions_, entries_;
  unsigned *sq_tail_ = nullptr, *sq_array_ = nullptr, *cq_head_ = nullptr, *cq_tail_ = nullptr;
  unsigned sq_mask_ = 0, cq_mask_ = 0;
  io_uring_sqe* sqes_ = nullptr;
  io_uring_cqe* cqes_ = nullptr;
};

}  // namespace damacy::detail
