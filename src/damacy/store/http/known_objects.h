// What a store behind HTTP knows of its objects: those that it asked for, until that is too old, and those whose first
// request is under way. Knows how many may be kept, by the store and by all stores of the process; asks for nothing.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "damacy/core/mutex.h"
#include "damacy/store/answer_block.h"
#include "damacy/store/http/http_object.h"
#include "damacy/store/http/origin.h"

namespace damacy::http {

// An object whose first request is under way, with the memory of its answer.
struct ExpectedObject {
  SteadyTime asked = std::chrono::steady_clock::now();
  AnswerBlock head;
  bool from_end = false;              // the last bytes are asked for
  bool is_unwanted = false;           // all announced reads have ended
  std::shared_ptr<HttpObject> old{};  // asked for unless it is still this one; null: not known
  std::size_t reads = 0;              // that were announced
  FirstAttempt first{};               // ends before the memory
  // Of an object that is known, and whose bytes are wanted again. Null: `first` asks about the object.
  std::shared_ptr<HttpObject> known{};
  std::unique_ptr<StartedRead> again{};
};

class KnownStores;

// Thread-safe.
class KnownObjects {
 public:
  explicit KnownObjects(std::chrono::milliseconds revalidate_after);
  ~KnownObjects();
  KnownObjects(const KnownObjects&) = delete;
  KnownObjects& operator=(const KnownObjects&) = delete;

  // Of all stores: more than these, and others than the one that is used forget what they know.
  static constexpr std::size_t kObjectsOfProcess = 262'144;                   // about 128 MiB
  static constexpr std::size_t kHeadBytesOfProcess = std::size_t{192} << 20;  // that no announced read needs
  static std::size_t kept_by_process();                                       // objects

  // Empty: not known, or too old; null: absent.
  std::optional<std::shared_ptr<HttpObject>> find(std::string_view key);
  // Empty also while it is expected, or a thread asks for it.
  std::optional<std::shared_ptr<HttpObject>> find_unasked(std::string_view key);
  // One that is known, but too old; null: none.
  std::shared_ptr<HttpObject> find_old(std::string_view key);
  // `object`: null if absent. One that has not changed stays the same object.
  void keep(std::string_view key, const std::shared_ptr<HttpObject>& object, SteadyTime asked);

  // Held from claim() until the request has begun, so that requests begin in the order of the claims.
  Mutex& beginning() noexcept { return beginning_; }
  // The caller begins the first request (null), or asks for the bytes of a known object again, and calls expect() or
  // forget() at once. Empty: the object is known, claimed or being asked for, or there are too many. Those that were
  // not opened in time make room. Of `bytes` and less all are wanted, also of an object that is known without them.
  std::optional<std::shared_ptr<HttpObject>> claim(std::string_view key, std::uint64_t bytes = 0);
  // More reads of an object that is expected, or known with its head. Not counted while a thread asks or begins to.
  void add_reads(std::string_view key, std::size_t count);
  // A read that was announced has ended. Gives an expected object of which none was announced: it will not be opened.
  std::unique_ptr<ExpectedObject> remove_read(std::string_view key);
  void forget(std::string_view key) noexcept;
  // How many of an object's bytes to ask for, of which `bytes` are wanted; `usual` without a wish, or without memory.
  std::size_t bytes_to_expect(std::uint64_t bytes, std::size_t usual);
  void expect(std::string_view key, std::unique_ptr<ExpectedObject> expected);
  const std::shared_ptr<HeadCounts>& head_counts() const noexcept { return heads_; }
  // Null: none, or too old.
  std::unique_ptr<ExpectedObject> take_expected(std::string_view key);

  // While one lives, its object is being asked for, and no other thread claims it. Its constructor waits for a claim,
  // and for who asks already: find() then has the answer, or that one got none and this one asks. Ends early as a
  // request does. `waits`: not where the thread asks for another object meanwhile, for which others may wait.
  class Asking {
   public:
    Asking(KnownObjects& objects, std::string_view key, bool waits = true);
    ~Asking();
    Asking(const Asking&) = delete;
    Asking& operator=(const Asking&) = delete;

   private:
    void wait(Lock& lock, bool waits) DAMACY_REQUIRES(objects_.mutex_);

    KnownObjects& objects_;
    const std::string key_;
  };

 private:
  struct Kept {
    std::string key;
    std::shared_ptr<HttpObject> object;  // null: absent
    SteadyTime asked;
  };
  using Expected = std::unordered_map<std::string, std::unique_ptr<ExpectedObject>>;
  struct Askers {
    std::uint64_t number = 0;  // no others have it
    int count = 0;
  };

  // Too old, or known to be wrong.
  bool is_out(const Kept& kept) const { return is_old(kept.asked) || (kept.object && kept.object->has_changed()); }
  bool is_out(const ExpectedObject& expected) const { return expected.is_unwanted || is_old(expected.asked); }
  bool is_old(SteadyTime asked) const { return std::chrono::steady_clock::now() - asked >= revalidate_after_; }
  std::optional<std::shared_ptr<HttpObject>> find_now(const std::string& key) DAMACY_REQUIRES(mutex_);
  void drop_heads(std::size_t wanted) DAMACY_REQUIRES(mutex_);
  void keep_one(std::string_view key, const std::shared_ptr<HttpObject>& object, SteadyTime asked);
  void drop(std::list<Kept>::iterator at) DAMACY_REQUIRES(mutex_);
  void drop_all();
  friend class KnownStores;
  std::unique_ptr<ExpectedObject> remove(Expected::iterator at) DAMACY_REQUIRES(mutex_);

  const std::chrono::milliseconds revalidate_after_;
  KnownStores& stores_;
  const std::shared_ptr<HeadCounts> heads_;
  Mutex beginning_;
  Mutex mutex_;
  std::list<Kept> kept_ DAMACY_GUARDED_BY(mutex_);  // the last used first
  std::unordered_map<std::string, std::list<Kept>::iterator> places_ DAMACY_GUARDED_BY(mutex_);
  Expected expected_ DAMACY_GUARDED_BY(mutex_);  // null: claimed
  Condition claim_ended_, asking_ended_;
  std::unordered_map<std::string, Askers> asking_ DAMACY_GUARDED_BY(mutex_);
  std::uint64_t last_asker_ DAMACY_GUARDED_BY(mutex_) = 0;
  std::size_t expected_bytes_ DAMACY_GUARDED_BY(mutex_) = 0;
};

}  // namespace damacy::http
