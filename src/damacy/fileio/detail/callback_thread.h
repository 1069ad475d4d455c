// The thread that tells people of ended operations: waits for their copies, then calls whom they named. Does no I/O.
// Starts when first needed, leaves when idle.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>

namespace damacy {

class Operation;

class CallbackThread {
 public:
  static CallbackThread& process();
  void add(std::shared_ptr<Operation> ended) noexcept;

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Operation>> ended_;
  bool is_running_ = false;
};

}  // namespace damacy
