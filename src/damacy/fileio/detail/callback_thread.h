// The thread that tells people of ended operations: waits for their copies, then calls whom they named. Does no I/O.
// Starts when first needed, leaves when idle.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

namespace damacy {

class Operation;

class CallbackThread {
 public:
  static CallbackThread& process();
  // Calls settle(*ended) on the thread.
  using Settle = void (*)(Operation& ended);
  void add(std::shared_ptr<Operation> ended, Settle settle) noexcept;

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<std::shared_ptr<Operation>, Settle>> ended_;
  bool is_running_ = false;
};

}  // namespace damacy
