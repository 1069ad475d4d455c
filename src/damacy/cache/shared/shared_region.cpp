#include "damacy/cache/shared/shared_region.h"

#include <chrono>
#include <map>
#include <new>
#include <thread>

#include "damacy/core/error.h"
#include "damacy/core/fork.h"
#include "damacy/core/formatted.h"

namespace damacy {
namespace {

constexpr int kSpins = 64, kYields = 128;  // attempts, before those that sleep
constexpr int kPatience = 2000;            // attempts: 100 ms or more
constexpr int kLookEvery = 100;            // attempts, then whether the holder is alive
constexpr unsigned kObstaclesBeforeLook = 64;
constexpr int kAttemptsToEnter = 100;

void wait_a_little(int attempt) noexcept {
  if (attempt < kSpins) return;
  if (attempt < kYields) return std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::microseconds(50));
}

RegionRequest with_layout(RegionRequest request) {
  request.layout = SharedRegion::kLayout;
  return request;
}

}  // namespace

struct OpenedRegions {
  Mutex mutex;
  std::map<std::string, std::weak_ptr<SharedRegion>> by_path DAMACY_GUARDED_BY(mutex);
};

std::shared_ptr<SharedRegion> SharedRegion::open(RegionRequest request) {
  auto& opened = one_per_process<OpenedRegions>();  // a child that was forked has none of its parent's
  const Lock lock(opened.mutex);
  std::weak_ptr<SharedRegion>& known = opened.by_path[request.directory + "/" + request.name];
  if (const auto region = known.lock(); region && region->sizes_.bytes == request.bytes) return region;
  const auto made = std::make_shared<SharedRegion>(request);
  known = made;
  return made;
}

SharedRegion::SharedRegion(const RegionRequest& request)
    : sizes_(shared_sizes(request.bytes)),
      memory_(with_layout(request), [this](std::span<std::byte> memory) { SharedEntries(memory, sizes_).clear(); }),
      entries_(memory_.bytes(), sizes_),
      holds_(sizes_.entries) {
  enter();
}

void SharedRegion::enter() {
  for (int attempt = 0; attempt < kAttemptsToEnter; ++attempt) {
    const Access access(*this, Access::Wait::patient);
    if (!access) continue;
    forget_the_dead();
    for (std::uint8_t number = 0; number < RegionMemory::kProcesses; ++number) {
      if (head().processes[number].load() != 0) continue;
      process_ = number;
      head().processes[number].store(self_);
      return;
    }
    throw Error(Status::inval,
                formatted("host_cache: {} processes use it, which is the limit", RegionMemory::kProcesses),
                "shared-cache");
  }
  throw Error(
      Status::io,
      formatted("host_cache: process {} holds the lock of the region and does not go on: end it, or use another name",
                number_of(head().lock.load())),
      "shared-cache");
}

// If the lock is not free, this process' end tells the others.
SharedRegion::~SharedRegion() {
  if (this_process() != self_) return;
  const Access access(*this);
  if (!access) return;
  entries_.forget(process_);
  head().processes[process_].store(0);
}

bool SharedRegion::lock(Access::Wait wait) noexcept {
  mutex_.lock();
  if (take_word(wait)) return true;
  mutex_.unlock();
  return false;
}

void SharedRegion::unlock() noexcept {
  head().lock.store(0, std::memory_order_release);
  mutex_.unlock();
}

bool SharedRegion::take_word(Access::Wait wait) noexcept {
  const bool is_short = gave_up_ && wait == Access::Wait::briefly;
  const int most = wait == Access::Wait::no ? 0 : is_short ? kSpins : kPatience;
  for (int attempt = 0;; ++attempt) {
    std::uint64_t holder = 0;
    if (head().lock.compare_exchange_strong(holder, self_, std::memory_order_acquire, std::memory_order_relaxed)) break;
    const bool looks = attempt % kLookEvery == kLookEvery - 1 || attempt == most;
    if (looks && wait != Access::Wait::no && take_over(holder)) break;
    if (attempt == most) {
      gave_up_ = gave_up_ || wait != Access::Wait::no;
      return false;
    }
    wait_a_little(attempt);
  }
  gave_up_ = false;
  if (head().damaged.load() == 0 || repair()) return true;
  head().lock.store(0, std::memory_order_release);
  return false;
}

bool SharedRegion::take_over(std::uint64_t holder) noexcept {
  if (is_alive(holder)) return false;
  if (!head().lock.compare_exchange_strong(holder, self_, std::memory_order_acquire, std::memory_order_relaxed))
    return false;
  head().damaged.store(1);
  return true;
}

bool SharedRegion::repair() noexcept {
  try {
    entries_.rebuild();
  } catch (const std::bad_alloc&) {
    return false;
  }
  head().damaged.store(0);
  forget_the_dead();
  return true;
}

void SharedRegion::report_obstacle() noexcept {
  if (++obstacles_ % kObstaclesBeforeLook == 0) forget_the_dead();
}

// The number of a process is free only when nothing of it is left.
void SharedRegion::forget_the_dead() noexcept {
  for (std::uint8_t number = 0; number < RegionMemory::kProcesses; ++number) {
    const ProcessId process = head().processes[number].load();
    if (process == 0 || is_alive(process)) continue;
    entries_.forget(number);
    head().processes[number].store(0);
  }
}

void SharedRegion::hold(std::uint32_t entry) noexcept {
  const Lock lock(holds_mutex_);
  if (holds_[entry]++ == 0) entries_.pin(entry, process_);
}

void SharedRegion::release(std::uint32_t entry) noexcept {
  const Lock lock(holds_mutex_);
  if (--holds_[entry] == 0) entries_.unpin(entry, process_);
}

std::shared_ptr<void> SharedRegion::page_lock(Device& device) {
  const Lock lock(page_lock_mutex_);
  auto locked = page_lock_.lock();
  if (!locked) page_lock_ = locked = device.page_lock(memory_.bytes());
  return locked;
}

}  // namespace damacy
