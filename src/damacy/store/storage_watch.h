// Storage may never answer, and no call can be taken back from it. So a thread that asks storage is watched from
// outside: who waits for its work can give the work up, and the thread is left alone with what it holds. Knows threads
// and times; not what is asked, nor who waits.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "damacy/core/clock.h"
#include "damacy/core/error.h"
#include "damacy/store/store.h"

namespace damacy {

// Work that somebody waits for.
class Abandonable {
 public:
  virtual ~Abandonable() = default;
  // Ends the work as failed, on another thread, while its own is stuck in storage and cannot go on before this returns.
  // Memory that storage may still write to stays with the stuck thread. Under a lock: asks no storage.
  virtual void abandon(const Error& why) noexcept = 0;
};

class StorageWatch {
 public:
  explicit StorageWatch(std::shared_ptr<const Clock> clock);
  StorageWatch(const StorageWatch&) = delete;
  StorageWatch& operator=(const StorageWatch&) = delete;

  // The calling thread's; null: nobody watches it.
  static StorageWatch* current() noexcept;
  // From here on this watch is the calling thread's, and outlives it.
  void sit_down() noexcept;

  // What the calling thread asks of storage in here belongs to `work`, and to that of scopes around it. Null: to
  // nothing that could be given up. No effect on a thread that nobody watches.
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

  // An operation of the calling thread, until end() or its own end. On an abandoned thread it throws, and so does the
  // end() of one that was abandoned meanwhile; whoever catches that must ask storage_abandoned() before it tells
  // anybody anything.
  class Operation {
   public:
    Operation(std::string_view verb, const Store& store, std::string_view key);
    // Waits for what others have: an operation while any of them are stuck.
    struct Behind {};
    explicit Operation(Behind);
    ~Operation();
    void end();
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;

   private:
    StorageWatch* watch_;  // null: none, or ended
  };

  // Any thread but its own. Gives up the work of an operation that began `age` ago or earlier; false: there is none.
  // Of those that wait behind others only if such are `stuck`.
  bool abandon(Clock::Time age, bool stuck, std::string_view why) noexcept;
  bool abandoned() const noexcept;

 private:
  void begin(std::string_view verb, const Store* store, std::string_view key);
  bool end() noexcept;  // false: it was abandoned
  std::optional<Error> describe(std::string_view why) const noexcept;

  struct BriefErrors;
  const std::shared_ptr<const Clock> clock_;
  const BriefErrors& brief_;
  mutable std::mutex mutex_;
  Scope* innermost_ = nullptr;
  bool asking_ = false;
  bool abandoned_ = false;
  Clock::Time began_{};
  std::string_view verb_, key_;
  const Store* store_ = nullptr;  // null: waits behind others
};

// The calling thread's work was given up: nobody wants to hear of it, and what it would touch may be gone.
[[nodiscard]] bool storage_abandoned() noexcept;

// The same objects, each call an operation.
std::shared_ptr<Store> make_watched_store(std::shared_ptr<Store> store);

}  // namespace damacy
