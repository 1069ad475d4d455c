// The one way to start a thread of the library. It has a name, which docs/reference/threads.md lists, and no signal
// of the user's reaches it. Knows names and how threads end; not what they do.
#pragma once

#include <csignal>
#include <string_view>
#include <thread>
#include <utility>

#include <pthread.h>

namespace damacy {

// As debuggers and /proc show it: 15 characters at most.
class ThreadName {
 public:
  consteval ThreadName(const char* name) : name_(name) {  // NOLINT(google-explicit-constructor)
    if (!std::string_view(name).starts_with("damacy-") || std::string_view(name).size() > 15)
      throw "a thread is called damacy-..., 15 characters at most";
  }
  const char* text() const noexcept { return name_; }

 private:
  const char* name_;
};

// Joins at its end, unless it was left alone before: then the thread shares or owns all it uses.
class Thread {
 public:
  Thread() noexcept = default;
  // Throws std::system_error when it cannot be started.
  template <class Body>
  Thread(ThreadName name, Body body) {
    const BlockedSignals blocked;
    thread_ = std::thread([name, body = std::move(body)]() mutable {
      pthread_setname_np(pthread_self(), name.text());
      body();
    });
  }
  Thread(Thread&&) noexcept = default;
  Thread& operator=(Thread&& other) noexcept {
    join();
    thread_ = std::move(other.thread_);
    return *this;
  }
  ~Thread() { join(); }

  // No effect without a thread.
  void join() noexcept {
    if (thread_.joinable()) thread_.join();
  }
  void leave_alone() noexcept {
    if (thread_.joinable()) thread_.detach();
  }

 private:
  // A thread inherits the mask of the one that starts it.
  class BlockedSignals {
   public:
    BlockedSignals() noexcept {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    BlockedSignals(const BlockedSignals&) = delete;
    BlockedSignals& operator=(const BlockedSignals&) = delete;
    ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

   private:
    sigset_t before_;
  };

  std::thread thread_;
};

}  // namespace damacy
