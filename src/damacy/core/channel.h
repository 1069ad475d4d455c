// An intrusive queue between threads. Items have their own link, so push() allocates nothing, cannot fail and never
// waits. An item is in at most one channel at a time and must outlive its stay there. Knows links; not what items are.
#pragma once

#include <utility>

#include "damacy/core/mutex.h"

namespace damacy {

// `T` has a member `T* next`, which the channel uses while the item is in it.
template <class T>
class Channel {
 public:
  void push(T& item) noexcept {
    item.next = nullptr;
    {
      const Lock lock(mutex_);
      *end_ = &item;
      end_ = &item.next;
    }
    changed_.notify_one();
  }

  // Removes the oldest item; waits for one. Null if the channel is closed and empty.
  T* pop() {
    Lock lock(mutex_);
    changed_.wait(lock, [&]() DAMACY_REQUIRES(mutex_) { return closed_ || first_ != nullptr; });
    if (first_ == nullptr) return nullptr;
    T* const item = std::exchange(first_, first_->next);
    if (first_ == nullptr) end_ = &first_;
    return item;
  }

  // Items in the channel can still be popped. No item is pushed after this.
  void close() noexcept {
    {
      const Lock lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
  }

 private:
  Mutex mutex_;
  Condition changed_;
  T* first_ DAMACY_GUARDED_BY(mutex_) = nullptr;
  T** end_ DAMACY_GUARDED_BY(mutex_) = &first_;  // where the next one is linked
  bool closed_ DAMACY_GUARDED_BY(mutex_) = false;
};

}  // namespace damacy
