// A blocking storage call cannot be cancelled. StorageWatch lets the waiting thread time it out: the work fails, and
// the stuck thread is detached and keeps its buffers until the call returns. Knows threads and times; not the calls,
// nor the waiting threads.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "damacy/core/clock.h"
#include "damacy/core/error.h"
#include "damacy/core/mutex.h"
#include "damacy/store/store.h"

namespace damacy {

// Work that another thread waits for.
class Abandonable {
 public:
  virtual ~Abandonable() = default;
  // Ends the work as failed, on another thread, while its own thread is stuck in a storage call and cannot continue
  // before this returns. Memory that the call may still write to stays with the stuck thread. Runs under a lock and
  // must not call storage.
  virtual void abandon(const Error& why) noexcept = 0;
};

// Thrown on a thread whose work was given up, by the operation that storage held or the next one. That work has ended
// on another thread, and what it used may be gone: this one unwinds. Caught at the end of a thread and nowhere else: it
// is no std::exception, so that handlers of errors let it pass.
struct Abandoned {};

class StorageWatch {
 public:
  explicit StorageWatch(std::shared_ptr<const Clock> clock);
  StorageWatch(const StorageWatch&) = delete;
  StorageWatch& operator=(const StorageWatch&) = delete;

  // The calling thread's watch; null if it has none.
  static StorageWatch* current() noexcept;
  // Makes this the watch of the calling thread. It must outlive the thread.
  void attach_thread() noexcept;

  // Storage calls of the calling thread in this scope belong to `work`, and to the work of enclosing scopes. Null: to
  // no work that can be abandoned. No effect on a thread without a watch.
  class Scope {
   public:
    explicit Scope(Abandonable* work) noexcept;
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    friend class StorageWatch;
    StorageWatch* const watch_;
    Abandonable* const work_;
    Scope* outer_ = nullptr;
  };

  // Calls `call`, a storage operation of this thread, and returns its result. Throws Abandoned instead of its result or
  // exception if this thread was abandoned before or meanwhile.
  template <class Call>
  static auto operation(std::string_view verb, const Store& store, std::string_view key, Call call) {
    return Operation(verb, &store, key).run(std::move(call));
  }
  // The same for a wait for data or memory of other threads; it counts as a storage operation while any of them is
  // stuck.
  template <class Wait>
  static auto wait_behind(Wait wait) {
    return Operation({}, nullptr, {}).run(std::move(wait));
  }

  // Any thread except its own. Abandons the work of an operation that began at least `age` ago; false if there is none.
  // Operations that wait for other threads are abandoned only if such threads are `stuck`.
  bool abandon(Clock::Time age, bool stuck, std::string_view why) noexcept;
  bool abandoned() const noexcept;
  // Any thread. Calls of its thread to remote stores end soon by Error(shutdown, "closed"), later ones at once.
  void cancel_remote() noexcept { remote_is_cancelled_ = true; }
  bool remote_is_cancelled() const noexcept { return remote_is_cancelled_; }

 private:
  void begin(std::string_view verb, const Store* store, std::string_view key);
  bool end() noexcept;  // false: it was abandoned

  class Operation {
   public:
    Operation(std::string_view verb, const Store* store, std::string_view key);
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;
    template <class Call>
    auto run(Call call) {
      try {
        if constexpr (std::is_void_v<decltype(call())>) {
          call();
          end();
        } else {
          auto result = call();
          end();
          return result;
        }
      } catch (...) {
        end();
        throw;
      }
    }

   private:
    void end();  // once; throws Abandoned

    StorageWatch* watch_;  // null: none, or ended
  };

  std::optional<Error> describe(std::string_view why) const noexcept DAMACY_REQUIRES(mutex_);

  struct BriefErrors;
  const std::shared_ptr<const Clock> clock_;
  const BriefErrors& brief_;
  std::atomic<bool> remote_is_cancelled_{false};
  mutable Mutex mutex_;
  Scope* innermost_ DAMACY_GUARDED_BY(mutex_) = nullptr;
  bool asking_ DAMACY_GUARDED_BY(mutex_) = false;
  bool abandoned_ DAMACY_GUARDED_BY(mutex_) = false;
  Clock::Time began_ DAMACY_GUARDED_BY(mutex_){};
  std::string_view verb_ DAMACY_GUARDED_BY(mutex_), key_ DAMACY_GUARDED_BY(mutex_);
  const Store* store_ DAMACY_GUARDED_BY(mutex_) = nullptr;  // null: waits for other threads
};

// Calls of this thread to remote stores end by Abandoned soon after the flag is set. Scopes do not nest.
class CancelScope {
 public:
  explicit CancelScope(const std::atomic<bool>& flag) noexcept;
  ~CancelScope();
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;

  // The calling thread's flag; null: none.
  static const std::atomic<bool>* current() noexcept;
};

// A store with the same objects, whose calls are watched operations.
std::shared_ptr<Store> make_watched_store(std::shared_ptr<Store> store);

}  // namespace damacy
