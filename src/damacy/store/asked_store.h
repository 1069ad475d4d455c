// Objects of a store that is asked one question after the other and answers later, on any thread: that of another
// language. Knows questions, answers, and which versions of objects are known; not how a question gets there.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "damacy/core/clock.h"
#include "damacy/core/error.h"
#include "damacy/core/mutex.h"
#include "damacy/store/store.h"

namespace damacy {

struct Question {
  enum class What {
    open,   // size and version of the object, and its first bytes if they come with these
    stamp,  // size and version
    list,   // what is directly below a prefix
    read,   // `size` bytes from `offset`, of the version that was opened
  };
  What what = What::open;
  std::string_view key;  // of list: the prefix
  std::uint64_t offset = 0, size = 0;
  std::string_view version = {};  // read: as the object was found when it was opened
  std::uint64_t object_size = 0;
};

// Who was asked answers once, on any thread. Later answers are dropped, and those after the wait has ended.
class StoreAnswer {
 public:
  struct Found {
    std::uint64_t size = 0;
    std::string version;  // empty: the store has none
    std::int64_t modified_ns = 0;
  };

  StoreAnswer() = default;
  StoreAnswer(const StoreAnswer&) = delete;
  StoreAnswer& operator=(const StoreAnswer&) = delete;
  virtual ~StoreAnswer() = default;

  // -- who was asked
  void absent();
  void found(Found found, std::span<const std::byte> head);
  void bytes(HeldBytes bytes);
  void entries(std::vector<Entry> entries);
  void fail(const Error& failure);

  // -- who asked
  bool is_settled();

 protected:
  // After the answer, on the thread that gave it.
  virtual void settled() noexcept {}
  // The wait has ended without an answer, which may be under way.
  virtual void cancel() noexcept {}

 private:
  friend class AskedStore;
  template <class Set>
  void settle(Set set);
  bool settles_within(std::chrono::milliseconds most);
  void give_up() noexcept;

  Mutex mutex_;
  Condition changed_;
  bool is_settled_ DAMACY_GUARDED_BY(mutex_) = false;
  bool is_given_up_ DAMACY_GUARDED_BY(mutex_) = false;
  // Set before `is_settled_`, read after it.
  std::optional<Error> failure_;
  std::optional<Found> found_;
  std::vector<std::byte> head_;
  std::vector<Entry> entries_;
  std::optional<HeldBytes> bytes_;
};

class Asker {
 public:
  virtual ~Asker() = default;
  // The answer may be there before this returns. Throws what failed. Any thread.
  virtual std::shared_ptr<StoreAnswer> ask(const Question& question) = 0;
  // Why no answer comes any more; empty: one may come. Asked again and again by threads that wait.
  virtual std::optional<Error> why_ended() = 0;
};

// `revalidate`: how old the answer to a question for a version may be; 0 asks each time.
[[nodiscard]] std::shared_ptr<Store> make_asked_store(std::shared_ptr<Asker> asker, std::string name,
                                                      Clock::Time revalidate,
                                                      std::shared_ptr<const Clock> clock = nullptr);
// Of a store that this made; null for others.
[[nodiscard]] Asker* asker_of(const Store& store) noexcept;

}  // namespace damacy
