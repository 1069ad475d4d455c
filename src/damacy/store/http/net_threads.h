// The threads that move bytes over the network, each with many transfers at a time: one set in a process, started by
// the first transfer. As many transfers to one origin are under way as its RequestWindow says, and at most `most`;
// others wait for their turn. Knows when transfers begin and end; not what they carry.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "damacy/core/mutex.h"
#include "damacy/core/thread.h"
#include "damacy/store/http/reactor.h"
#include "damacy/store/http/request_window.h"

namespace damacy::http {

using SteadyTime = std::chrono::steady_clock::time_point;

// One handle of libcurl on its way.
class NetTask {
 public:
  virtual ~NetTask() = default;
  virtual void* handle() const noexcept = 0;  // set up, not yet added
  // The next four are called on a network thread.
  // `allowed`: how many may be under way to its origin.
  virtual void begins(SteadyTime now, std::size_t allowed) noexcept = 0;
  [[nodiscard]] virtual bool is_late(SteadyTime now) const noexcept = 0;
  virtual void look(SteadyTime) noexcept {}  // now and then, while it is under way; may submit other tasks
  // After its end, `code` is libcurl's: what its origin learns from it. Without `all_used`.
  [[nodiscard]] virtual RequestWindow::End outcome(int code) const noexcept = 0;
  // Once: `code` is libcurl's, `aborted` after cancel(). No byte lands afterwards. Not under a lock, on a network
  // thread or on the one that cancels.
  virtual void ended(int code) noexcept = 0;
};

class NetThreads {
 public:
  NetThreads() = default;
  ~NetThreads() { stop(); }
  NetThreads(const NetThreads&) = delete;
  NetThreads& operator=(const NetThreads&) = delete;

  // `origin`: scheme, host and port. Throws Error(oom, "memory") if no thread can be started.
  void submit(std::shared_ptr<NetTask> task, std::string_view origin, std::size_t most);
  // Has the task end soon, if it has not.
  void cancel(const std::shared_ptr<NetTask>& task) noexcept;
  // Ends all tasks, and those that are submitted later. Waits for the threads at most 5 s. Idempotent.
  void stop() noexcept;

  // The process's. A forked child has its own, and leaves its parent's alone. Stopped when the process exits.
  static NetThreads& of_process();
  // What DAMACY_NET_THREADS says, else one for each eight cores, at most four.
  [[nodiscard]] static std::size_t count_of(const char* setting, std::size_t cores) noexcept;

 private:
  // What follows is guarded by mutex_, also the members of these.
  struct Origin {
    RequestWindow window;
    std::size_t under_way = 0;
    std::deque<std::shared_ptr<NetTask>> waiting;
  };
  using Origins = std::unordered_map<std::string, Origin>;
  struct Fresh {
    std::shared_ptr<NetTask> task;
    std::size_t allowed;
  };
  struct Worker {
    Reactor reactor;                                 // the thread's, except wake_up()
    std::vector<Fresh> fresh;                        // to be added by the thread
    std::vector<std::shared_ptr<NetTask>> unwanted;  // to be removed by it
    std::size_t tasks = 0;
    bool has_ended = false;
    Thread thread;
  };
  struct Place {
    Origins::pointer origin;
    Worker* worker = nullptr;  // null: the task waits for its turn
  };
  // The tasks of one network thread.
  using Running = std::unordered_map<void*, std::shared_ptr<NetTask>>;

  void start_threads() DAMACY_REQUIRES(mutex_);
  Origins::pointer origin_of(std::string_view name) DAMACY_REQUIRES(mutex_);
  void send(const std::shared_ptr<NetTask>& task, Place& place) DAMACY_REQUIRES(mutex_);
  void send_waiting(Origin& origin) noexcept DAMACY_REQUIRES(mutex_);
  // `end`: empty if it was not sent, or was cancelled.
  void leave(const std::shared_ptr<NetTask>& task, const RequestWindow::End* end = nullptr) noexcept
      DAMACY_REQUIRES(mutex_);
  void serve(Worker& worker) noexcept;
  bool take_orders(Worker& worker, Running& running) noexcept;
  void end(std::shared_ptr<NetTask> task, int code) noexcept;

  Mutex mutex_;
  Condition changed_;
  bool stopping_ DAMACY_GUARDED_BY(mutex_) = false;
  std::size_t count_ DAMACY_GUARDED_BY(mutex_) = 0;  // of workers; 0: not known, because to ask reads files
  std::size_t connections_at_most_ DAMACY_GUARDED_BY(mutex_) = 0;  // to one origin
  std::vector<std::shared_ptr<Worker>> workers_ DAMACY_GUARDED_BY(mutex_);
  Origins origins_ DAMACY_GUARDED_BY(mutex_);
  std::unordered_map<const NetTask*, Place> places_ DAMACY_GUARDED_BY(mutex_);  // of all that have not ended
};

}  // namespace damacy::http
