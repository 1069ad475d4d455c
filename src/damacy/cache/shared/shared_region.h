// A region of memory that processes of one user share, as one process sees it: the memory, its index under a lock that
// a dead process cannot keep, and what this process holds. All who ask for a region in a process get the same one.
// Knows processes and entries; not what chunks are. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "damacy/cache/shared/region_memory.h"
#include "damacy/cache/shared/shared_entries.h"
#include "damacy/core/mutex.h"
#include "damacy/device/device.h"

namespace damacy {

class SharedRegion {
 public:
  static constexpr std::uint64_t kLayout = 2;  // the version; another one for each change of what lies in the memory

  // Joins the region or makes it. Throws as RegionMemory; Error(io) if the region's lock is not released.
  static std::shared_ptr<SharedRegion> open(RegionRequest request);
  explicit SharedRegion(const RegionRequest& request);  // for tests: another one in the same process
  ~SharedRegion();
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;

  // The lock of the index, while this exists. It is taken over from a process that died, and the index is repaired.
  // False: it was not released for long, by a process that is stopped; then nothing may be looked up or changed.
  class Access {
   public:
    // A `patient` one waits the longest time even if the lock was not released for long before.
    enum class Wait { no, briefly, patient };
    explicit Access(SharedRegion& region, Wait wait = Wait::briefly) : region_(region), has_(region.lock(wait)) {}
    ~Access() {
      if (has_) region_.unlock();
    }
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;
    explicit operator bool() const noexcept { return has_; }

   private:
    SharedRegion& region_;
    const bool has_;
  };
  // With Access, except for what is atomic.
  SharedEntries& entries() noexcept { return entries_; }
  std::uint8_t process() const noexcept { return process_; }  // the number of this process in the region
  // With Access. Something is in the way: now and then, looks whether a dead process left it there.
  void report_obstacle() noexcept;
  void forget_the_dead() noexcept;

  // Of an entry that is whole, with Access, or that this process fills.
  void hold(std::uint32_t entry) noexcept;
  void release(std::uint32_t entry) noexcept;

  // Page-locks all of it for a device while the result exists; once in a process.
  std::shared_ptr<void> page_lock(Device& device);
  const SharedSizes& sizes() const noexcept { return sizes_; }

 private:
  struct Head {
    std::atomic<std::uint64_t> lock;     // a process, or 0
    std::atomic<std::uint64_t> damaged;  // a process died in the middle of a change
    std::atomic<std::uint64_t> processes[RegionMemory::kProcesses];
  };
  static_assert(sizeof(Head) <= 2048 && RegionMemory::kProcesses == 64);

  Head& head() const noexcept { return *reinterpret_cast<Head*>(memory_.bytes().data()); }
  bool lock(Access::Wait wait) noexcept DAMACY_NO_THREAD_SAFETY_ANALYSIS;  // released by unlock()
  void unlock() noexcept DAMACY_NO_THREAD_SAFETY_ANALYSIS;
  bool take_word(Access::Wait wait) noexcept;
  bool take_over(std::uint64_t holder) noexcept;
  bool repair() noexcept;
  void enter();

  const ProcessId self_ = this_process();
  const SharedSizes sizes_;
  const RegionMemory memory_;
  SharedEntries entries_;
  std::uint8_t process_ = 0;
  Mutex mutex_;             // threads of this process take turns to wait for the region's lock
  bool gave_up_ = false;    // under mutex_: the lock was not released for long
  unsigned obstacles_ = 0;  // with Access
  Mutex holds_mutex_;
  std::vector<std::uint32_t> holds_ DAMACY_GUARDED_BY(holds_mutex_);  // of this process, by entry
  Mutex page_lock_mutex_;
  std::weak_ptr<void> page_lock_ DAMACY_GUARDED_BY(page_lock_mutex_);
};

}  // namespace damacy
