// A bounded queue between threads. What blocks takes a stop_token and returns empty (or false) when stopped.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>

namespace damacy {

template <class T>
class Channel {
 public:
  explicit Channel(std::size_t capacity) : capacity_(capacity) {}

  bool push(T value, std::stop_token stop) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait(lock, stop, [&] { return closed_ || items_.size() < capacity_; }) || closed_) return false;
    items_.push_back(std::move(value));
    changed_.notify_all();
    return true;
  }

  std::optional<T> pop(std::stop_token stop) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait(lock, stop, [&] { return closed_ || !items_.empty(); }) || items_.empty()) return std::nullopt;
    T value = std::move(items_.front());
    items_.pop_front();
    changed_.notify_all();
    return value;
  }

  // What is inside can still be popped; nothing can be pushed.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<T> items_;
  std::size_t capacity_;
  bool closed_ = false;
};

}  // namespace damacy
