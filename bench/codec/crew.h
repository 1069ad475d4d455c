// Threads that wait for work, so that starting threads is not measured.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace damacy::bench {

class Crew {
 public:
  explicit Crew(std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) threads_.emplace_back([this, i](std::stop_token stop) { serve(stop, i); });
  }
  ~Crew() {
    for (std::jthread& thread : threads_) thread.request_stop();
    wake_.notify_all();
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  [[nodiscard]] std::size_t size() const { return threads_.size(); }

  // Calls work(item, worker) for every item of [0, count), in portions; returns after all calls.
  void each(std::size_t count, const std::function<void(std::size_t, std::size_t)>& work, std::size_t portion = 1) {
    std::unique_lock lock(mutex_);
    work_ = &work;
    count_ = count;
    portion_ = portion;
    next_ = 0;
    busy_ = threads_.size();
    ++round_;
    wake_.notify_all();
    done_.wait(lock, [&] { return busy_ == 0; });
  }

 private:
  void serve(const std::stop_token& stop, std::size_t worker) {
    std::size_t seen = 0;
    std::unique_lock lock(mutex_);
    while (wake_.wait(lock, stop, [&] { return round_ != seen; })) {
      seen = round_;
      lock.unlock();
      for (std::size_t begin = next_.fetch_add(portion_); begin < count_; begin = next_.fetch_add(portion_))
        for (std::size_t i = begin; i < begin + portion_ && i < count_; ++i) (*work_)(i, worker);
      lock.lock();
      if (--busy_ == 0) done_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::condition_variable done_;
  const std::function<void(std::size_t, std::size_t)>* work_ = nullptr;
  std::size_t count_ = 0, portion_ = 1, busy_ = 0, round_ = 0;
  std::atomic<std::size_t> next_ = 0;
  std::vector<std::jthread> threads_;  // last, because they use the members above
};

}  // namespace damacy::bench
