// A queue between threads, of items that bring their own link: pushing takes no memory, so it cannot fail, and never
// waits. An item is in one channel at a time and outlives its stay there. Knows links; not what items are.
#pragma once

#include <utility>

#include "damacy/core/mutex.h"

namespace damacy {

// `T` has a member `T* next`, which is the channel's while the item is inside.
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

  // The oldest; waits for one. Null: closed, and empty.
  T* pop() {
    Lock lock(mutex_);
    changed_.wait(lock, [&]() DAMACY_REQUIRES(mutex_) { return closed_ || first_ != nullptr; });
    if (first_ == nullptr) return nullptr;
    T* const item = std::exchange(first_, first_->next);
    if (first_ == nullptr) end_ = &first_;
    return item;
  }

  // What is inside can still be popped; nothing is pushed any more.
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
