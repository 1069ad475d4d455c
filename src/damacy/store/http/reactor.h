// One libcurl multi handle, driven by epoll: the work of a turn follows from what happened, not from the number of
// transfers. Knows handles and sockets; not requests, nor threads.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <vector>

#include "damacy/store/http/curl.h"

namespace damacy::http {

// Used by one thread, except wake_up().
class Reactor {
 public:
  // Throws Error(oom, "memory").
  Reactor();
  ~Reactor();  // closes its connections; no handle may be added
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  // False: libcurl does not take the handle.
  [[nodiscard]] bool add(void* handle) noexcept;
  // Before the handle's end: none of its functions is called afterwards.
  void remove(void* handle) noexcept;

  using Ended = std::function<void(void* handle, int code)>;
  // Waits for sockets, libcurl's timer or wake_up(), at most `most`, then makes progress. Calls `ended` for each handle
  // that reached its end, which is removed before.
  void turn(std::chrono::milliseconds most, const Ended& ended) noexcept;
  // Any thread: the next wait ends, or the one that is going on.
  void wake_up() noexcept;
  // Before the thread looks at what others may have woken it for: a wake-up that comes later is not lost.
  void listen() noexcept { is_awake_ = false; }

 private:
  using Time = std::chrono::steady_clock::time_point;

  void act(int socket, int events) noexcept;
  void act_if_due() noexcept;
  void watch(int socket, int what) noexcept;
  void close(int socket) noexcept;
  void stop_watching() noexcept;
  static int on_socket(void* handle, int socket, int what, void* self, void*) noexcept;
  static int on_close(void* self, int socket) noexcept;
  static int on_timer(void* multi, long ms, void* self) noexcept;

  const Curl& curl_;
  void* multi_ = nullptr;
  int epoll_ = -1, wake_ = -1;
  Time timer_ = Time::max();
  std::atomic<bool> is_awake_{false};  // it listens before it waits: a wake-up costs nothing
  std::vector<int> unwatched_;  // sockets whose transfer has ended, until the next wait: they are mostly used again
  std::vector<int> lookups_;    // watched descriptors of name look-ups, which are not used again
};

}  // namespace damacy::http
