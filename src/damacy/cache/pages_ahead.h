// Makes pages of a large buffer resident shortly before they are written for the first time, on a thread of its own:
// otherwise the threads that write wait while the kernel clears each page. Pages far ahead take no memory. Knows pages;
// not what is written.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>

#include "damacy/core/mutex.h"
#include "damacy/core/thread.h"

namespace damacy {

class PagesAhead {
 public:
  static constexpr std::size_t kAhead = std::size_t{64} << 20;  // bytes
  static constexpr std::size_t kAtOnce = std::size_t{4} << 20;  // of one call of the kernel

  // Page-aligned memory, which outlives this. Without a thread, or on a kernel that cannot, it does nothing.
  explicit PagesAhead(std::span<std::byte> memory) noexcept;
  ~PagesAhead();
  PagesAhead(const PagesAhead&) = delete;
  PagesAhead& operator=(const PagesAhead&) = delete;

  // The bytes before `end` are written now. Any thread; waits for nothing.
  void written_to(std::size_t end) noexcept;
  // Bytes from the first one on that were made resident.
  std::size_t resident() const noexcept { return resident_; }

 private:
  void make_resident();

  const std::span<std::byte> memory_;
  std::atomic<std::size_t> wanted_{kAhead};  // bytes from the first one on
  std::atomic<std::size_t> resident_{0};
  Mutex mutex_;
  Condition changed_;
  bool ended_ DAMACY_GUARDED_BY(mutex_) = false;
  Thread thread_;  // last: it uses all of the above
};

}  // namespace damacy
