// A queue between threads, of items that bring their own link: pushing takes no memory, so it cannot fail, and never
// waits. An item is in one channel at a time and outlives its stay there. Knows links; not what items are.
#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>

namespace damacy {

// `T` has a member `T* next`, which is the channel's while the item is inside.
template <class T>
class Channel {
 public:
  void push(T& item) noexcept {
    item.next = nullptr;
    {
      const std::lock_guard lock(mutex_);
      *end_ = &item;
      end_ = &item.next;
    }
    changed_.notify_one();
  }

  // The oldest; waits for one. Null: closed, and empty.
  T* pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || first_ != nullptr; });
    if (first_ == nullptr) return nullptr;
    T* const item = std::exchange(first_, first_->next);
    if (first_ == nullptr) end_ = &first_;
    return item;
  }

  // What is inside can still be popped; nothing is pushed any more.
  void close() noexcept {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  T* first_ = nullptr;
  T** end_ = &first_;  // where the next one is linked
  bool closed_ = false;
};

}  // namespace damacy
