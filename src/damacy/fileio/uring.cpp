// The rings. Indices that kernel and thread share are read and written with the memory order that the kernel's
// interface requires.
#include "damacy/fileio/detail/uring.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "damacy/core/error.h"
#include "damacy/core/fork.h"
#include "damacy/core/formatted.h"
#include "damacy/core/on_failure.h"
#include "damacy/fileio/engine_choice.h"
#include "damacy/fileio/file.h"
#include "damacy/fileio/io_settings.h"

namespace damacy::detail {
namespace {

int set_up(unsigned entries, io_uring_params& params) {
  return static_cast<int>(::syscall(SYS_io_uring_setup, entries, &params));
}

int enter(int fd, unsigned submit, unsigned wait_for) {
  return static_cast<int>(
      ::syscall(SYS_io_uring_enter, fd, submit, wait_for, wait_for > 0 ? IORING_ENTER_GETEVENTS : 0, nullptr, 0));
}

UringProbe probe() {
  io_uring_params params{};
  const int fd = set_up(4, params);
  if (fd < 0) return {false, formatted("io_uring_setup: {}", words_of_errno(errno))};
  constexpr unsigned kOperations = 64;
  std::vector<std::byte> memory(sizeof(io_uring_probe) + kOperations * sizeof(io_uring_probe_op));
  auto* found = reinterpret_cast<io_uring_probe*>(memory.data());
  const auto asked = ::syscall(SYS_io_uring_register, fd, IORING_REGISTER_PROBE, found, kOperations);
  const int number = errno;
  ::close(fd);
  if (asked < 0) return {false, formatted("cannot query the operations of io_uring: {}", words_of_errno(number))};
  for (const unsigned needed : {unsigned{IORING_OP_READV}, unsigned{IORING_OP_WRITEV}})
    if (needed > found->last_op || (found->ops[needed].flags & IO_URING_OP_SUPPORTED) == 0)
      return {false, formatted("io_uring lacks operation {}", needed)};
  return {true, {}};
}

}  // namespace

Uring::Mapping::Mapping(int fd, std::size_t bytes, std::uint64_t offset) : bytes_(bytes) {
  memory_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, static_cast<off_t>(offset));
  if (memory_ != MAP_FAILED) return;
  memory_ = nullptr;
  throw Error(Status::io, formatted("io_uring: mmap: {}", words_of_errno(errno)), "io").with_errno(errno);
}

Uring::Mapping& Uring::Mapping::operator=(Mapping&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Uring::Mapping::~Mapping() {
  if (memory_ != nullptr) ::munmap(memory_, bytes_);
}

Uring::Uring(unsigned depth) {
  io_uring_params params{};
  fd_ = set_up(std::clamp(depth, 1U, 4096U), params);
  if (fd_ < 0) throw Error(Status::io, formatted("io_uring_setup: {}", words_of_errno(errno)), "io").with_errno(errno);
  const OnFailure undo([this] { ::close(fd_); });
  submissions_ = Mapping(fd_, params.sq_off.array + params.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
  completions_ = Mapping(fd_, params.cq_off.cqes + params.cq_entries * sizeof(io_uring_cqe), IORING_OFF_CQ_RING);
  entries_ = Mapping(fd_, params.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES);
  depth_ = params.sq_entries;
  sq_tail_ = submissions_.at<unsigned>(params.sq_off.tail);
  sq_mask_ = *submissions_.at<unsigned>(params.sq_off.ring_mask);
  sq_array_ = submissions_.at<unsigned>(params.sq_off.array);
  cq_head_ = completions_.at<unsigned>(params.cq_off.head);
  cq_tail_ = completions_.at<unsigned>(params.cq_off.tail);
  cq_mask_ = *completions_.at<unsigned>(params.cq_off.ring_mask);
  cqes_ = completions_.at<io_uring_cqe>(params.cq_off.cqes);
  sqes_ = entries_.at<io_uring_sqe>(0);
}

Uring::~Uring() {
  ::close(fd_);
}

Uring* Uring::of_this_thread() {
  if (!probe_uring().usable) return nullptr;
  struct Own {
    std::uint64_t epoch = fork_epoch();
    std::unique_ptr<Uring> ring;
    bool failed = false;
  };
  thread_local Own own;
  if (own.epoch != fork_epoch()) {  // after a fork: the ring belongs to the parent process
    static_cast<void>(own.ring.release());
    own = {};
  }
  if (own.ring == nullptr && !own.failed) {
    try {
      own.ring =
          std::make_unique<Uring>(static_cast<unsigned>(std::min<std::uint64_t>(io_settings().queue_depth, 4096)));
    } catch (const Error&) {
      own.failed = true;
    }
  }
  return own.ring.get();
}

void Uring::push(const Call& call, std::uint64_t index) noexcept {
  const unsigned tail = *sq_tail_;  // only this thread writes it
  const unsigned slot = tail & sq_mask_;
  io_uring_sqe& entry = sqes_[slot];
  std::memset(&entry, 0, sizeof entry);
  entry.opcode = call.writes ? IORING_OP_WRITEV : IORING_OP_READV;
  entry.fd = call.fd;
  entry.off = call.offset;
  entry.addr = reinterpret_cast<std::uint64_t>(call.vectors.data());
  entry.len = static_cast<unsigned>(call.vectors.size());
  entry.user_data = index;
  sq_array_[slot] = slot;
  std::atomic_ref(*sq_tail_).store(tail + 1, std::memory_order_release);
}

std::size_t Uring::reap(std::span<Call> calls) noexcept {
  std::size_t count = 0;
  unsigned head = *cq_head_;
  for (; head != std::atomic_ref(*cq_tail_).load(std::memory_order_acquire); ++head, ++count) {
    const io_uring_cqe& entry = cqes_[head & cq_mask_];
    calls[entry.user_data].result = entry.res;
  }
  std::atomic_ref(*cq_head_).store(head, std::memory_order_release);
  return count;
}

void Uring::run(std::span<Call> calls) noexcept {
  std::size_t pushed = 0, taken = 0, ended = 0;
  while (ended < calls.size()) {
    for (; pushed < calls.size() && pushed - ended < depth_; ++pushed) push(calls[pushed], pushed);
    const unsigned in_flight = static_cast<unsigned>(pushed - ended);
    const int n =
        enter(fd_, static_cast<unsigned>(pushed - taken), pushed == calls.size() ? in_flight : in_flight / 2 + 1);
    if (n > 0) taken += static_cast<std::size_t>(n);
    ended += reap(calls);
    const bool goes_on = n >= 0 || errno == EINTR || errno == EAGAIN || errno == EBUSY;
    if (goes_on || taken > ended) continue;
    for (std::size_t i = taken; i < calls.size(); ++i) calls[i].result = -ECANCELED;
    std::atomic_ref(*sq_tail_).store(*sq_tail_ - static_cast<unsigned>(pushed - taken), std::memory_order_release);
    return;
  }
}

}  // namespace damacy::detail

namespace damacy {

const UringProbe& probe_uring() {
  static const auto* found = new UringProbe(detail::probe());
  return *found;
}

}  // namespace damacy
