#include "damacy/cache/pages_ahead.h"

#include <algorithm>
#include <exception>

#include <sys/mman.h>

namespace damacy {
namespace {

// Of Linux 5.14; headers may be older. Contents stay, also if another thread writes meanwhile.
constexpr int kPopulateWrite = 23;

bool populate(std::span<std::byte> pages) noexcept {
  return ::madvise(pages.data(), pages.size(), kPopulateWrite) == 0;
}

}  // namespace

PagesAhead::PagesAhead(std::span<std::byte> memory) noexcept : memory_(memory) {
  try {
    thread_ = Thread("damacy-pages", [this] { make_resident(); });
  } catch (const std::exception&) {  // no thread, or no memory for it: the threads that write do it
  }
}

PagesAhead::~PagesAhead() {
  {
    const Lock lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
}

// Seldom more than a look: the thread is woken when half of what is ahead is used.
void PagesAhead::written_to(std::size_t end) noexcept {
  if (end + kAhead / 2 <= wanted_.load(std::memory_order_relaxed)) return;
  {
    const Lock lock(mutex_);
    wanted_ = std::max(wanted_.load(), end + kAhead);
  }
  changed_.notify_one();
}

void PagesAhead::make_resident() {
  const auto is_wanted = [this]() DAMACY_REQUIRES(mutex_) { return ended_ || resident_ < wanted_; };
  while (resident_ < memory_.size()) {
    {
      Lock lock(mutex_);
      changed_.wait(lock, is_wanted);
      if (ended_) return;
    }
    const std::size_t size = std::min(kAtOnce, memory_.size() - resident_);
    if (!populate(memory_.subspan(resident_, size))) return;
    resident_ += size;
  }
}

}  // namespace damacy
