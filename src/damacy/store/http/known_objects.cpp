#include "damacy/store/http/known_objects.h"

#include <algorithm>
#include <iterator>
#include <list>
#include <utility>
#include <vector>

#include "damacy/core/fork.h"
#include "damacy/store/http/transfer.h"

namespace damacy::http {
namespace {

constexpr std::size_t kKeptObjects = 4096;     // what is known of them
constexpr std::size_t kKeptHeads = 256;        // those whose first bytes are kept
constexpr std::size_t kExpectedObjects = 512;  // those whose first request is under way
constexpr std::size_t kAnswerBytes = 256 << 20;
constexpr std::size_t kLeastBytes = 16 << 10;          // of a wish: fewer save nothing
constexpr auto kLook = std::chrono::milliseconds(20);  // for work that was given up

}  // namespace

// All stores of the process. When they know too much together, others than the one that keeps an object forget what
// they know, by turns. Its lock is taken before that of a store.
class KnownStores {
 public:
  void add(KnownObjects* store) {
    const Lock lock(mutex_);
    stores_.push_back(store);
  }
  void remove(KnownObjects* store) noexcept {
    const Lock lock(mutex_);
    stores_.remove(store);
  }
  // After `store` has kept an object, without its lock.
  void trim(KnownObjects* store) {
    const auto is_full = [this] {
      const std::size_t announced = heads->announced, bytes = heads->bytes;
      return objects > KnownObjects::kObjectsOfProcess ||
             (bytes > announced && bytes - announced > KnownObjects::kHeadBytesOfProcess);
    };
    if (!is_full()) return;
    const Lock lock(mutex_);
    stores_.remove(store);
    for (std::size_t left = stores_.size(); left > 0 && is_full(); --left) {
      stores_.front()->drop_all();
      stores_.splice(stores_.end(), stores_, stores_.begin());
    }
    stores_.push_back(store);
  }

  std::atomic<std::size_t> objects{0};
  const std::shared_ptr<HeadCounts> heads = std::make_shared<HeadCounts>();

 private:
  Mutex mutex_;
  std::list<KnownObjects*> stores_ DAMACY_GUARDED_BY(mutex_);
};

KnownObjects::KnownObjects(std::chrono::milliseconds revalidate_after)
    : revalidate_after_(revalidate_after), stores_(one_per_process<KnownStores>()), heads_(stores_.heads) {
  stores_.add(this);
}

// In a forked child, the lock of the parent's stores may be held.
KnownObjects::~KnownObjects() {
  if (&stores_ != &one_per_process<KnownStores>()) return;
  stores_.remove(this);
  const Lock lock(mutex_);
  stores_.objects -= kept_.size();
}

std::size_t KnownObjects::kept_by_process() {
  return one_per_process<KnownStores>().objects;
}

std::optional<std::shared_ptr<HttpObject>> KnownObjects::find(std::string_view key) {
  const Lock lock(mutex_);
  return find_now(std::string(key));
}

std::optional<std::shared_ptr<HttpObject>> KnownObjects::find_unasked(std::string_view key) {
  const std::string name(key);
  const Lock lock(mutex_);
  if (expected_.contains(name) || asking_.contains(name)) return std::nullopt;
  return find_now(name);
}

std::optional<std::shared_ptr<HttpObject>> KnownObjects::find_now(const std::string& key) {
  const auto at = places_.find(key);
  if (at == places_.end() || is_out(*at->second)) return std::nullopt;
  kept_.splice(kept_.begin(), kept_, at->second);
  return at->second->object;
}

std::shared_ptr<HttpObject> KnownObjects::find_old(std::string_view key) {
  const Lock lock(mutex_);
  const auto at = places_.find(std::string(key));
  if (at == places_.end() || !is_old(at->second->asked) || !at->second->object) return nullptr;
  return at->second->object->has_changed() ? nullptr : at->second->object;
}

void KnownObjects::keep(std::string_view key, const std::shared_ptr<HttpObject>& object, SteadyTime asked) {
  keep_one(key, object, asked);
  stores_.trim(this);
}

void KnownObjects::keep_one(std::string_view key, const std::shared_ptr<HttpObject>& object, SteadyTime asked) {
  const Lock lock(mutex_);
  if (const auto at = places_.find(std::string(key)); at != places_.end()) {
    const auto& known = at->second->object;
    const bool is_same = known && object && known->stamp() == object->stamp() && known->version() == object->version();
    if (is_same && !known->has_changed()) {
      if (known != object) known->take_head_of(*object);
      at->second->asked = asked;
      kept_.splice(kept_.begin(), kept_, at->second);
      return;
    }
    kept_.erase(at->second);
    places_.erase(at);
    --stores_.objects;
  }
  kept_.push_front({std::string(key), object, asked});
  places_[std::string(key)] = kept_.begin();
  ++stores_.objects;
  drop_heads(0);
  if (kept_.size() > kKeptObjects) drop(std::prev(kept_.end()));
}

void KnownObjects::drop(std::list<Kept>::iterator at) {
  if (at->object) at->object->drop_head();
  places_.erase(at->key);
  kept_.erase(at);
  --stores_.objects;
}

// An object whose announced reads need its head stays.
void KnownObjects::drop_all() {
  const Lock lock(mutex_);
  for (auto at = kept_.begin(); at != kept_.end();) {
    const auto next = std::next(at);
    if (!at->object || !at->object->has_reads()) drop(at);
    at = next;
  }
}

// Those of old objects, unless announced reads need them. All of the oldest, if there is no room for `wanted` bytes.
void KnownObjects::drop_heads(std::size_t wanted) {
  if (kept_.size() > kKeptHeads)
    if (const auto& late = *std::next(kept_.begin(), kKeptHeads); late.object && !late.object->has_reads())
      late.object->drop_head();
  const auto is_full = [&]()
                           DAMACY_REQUIRES(mutex_) { return expected_bytes_ + heads_->bytes + wanted > kAnswerBytes; };
  for (auto at = kept_.rbegin(); at != kept_.rend() && is_full(); ++at)
    if (at->object) at->object->drop_head();
}

std::optional<std::shared_ptr<HttpObject>> KnownObjects::claim(std::string_view key, std::uint64_t bytes) {
  if (revalidate_after_ <= std::chrono::milliseconds(0)) return std::nullopt;
  std::vector<std::unique_ptr<ExpectedObject>> late;  // ends without the lock
  const Lock lock(mutex_);
  if (expected_.size() >= kExpectedObjects)
    for (auto at = expected_.begin(); at != expected_.end();) {
      const auto next = std::next(at);
      if (at->second && is_out(*at->second)) late.push_back(remove(at));
      at = next;
    }
  if (const auto old = expected_.find(std::string(key)); old != expected_.end() && old->second && is_out(*old->second))
    late.push_back(remove(old));
  const auto at = places_.find(std::string(key));
  std::shared_ptr<HttpObject> known;
  if (at != places_.end() && !is_out(*at->second)) {
    known = at->second->object;
    if (!known || known->has_head() || known->stamp().size == 0 || known->stamp().size > bytes) return std::nullopt;
  }
  if (asking_.contains(std::string(key)) || expected_.size() >= kExpectedObjects) return std::nullopt;
  if (!expected_.try_emplace(std::string(key)).second) return std::nullopt;
  return known;
}

void KnownObjects::add_reads(std::string_view key, std::size_t count) {
  const Lock lock(mutex_);
  if (const auto at = expected_.find(std::string(key)); at != expected_.end()) {
    if (at->second) at->second->reads += count;
  } else if (const auto known = places_.find(std::string(key)); known != places_.end() && known->second->object) {
    known->second->object->add_reads(count);
  }
}

std::unique_ptr<ExpectedObject> KnownObjects::remove_read(std::string_view key) {
  const Lock lock(mutex_);
  const auto at = expected_.find(std::string(key));
  if (at == expected_.end()) {
    const auto known = places_.find(std::string(key));
    if (known != places_.end() && known->second->object) known->second->object->remove_read();
    return nullptr;
  }
  if (!at->second) return nullptr;
  if (at->second->reads == 0) return remove(at);
  at->second->is_unwanted = --at->second->reads == 0;
  return nullptr;
}

std::size_t KnownObjects::bytes_to_expect(std::uint64_t bytes, std::size_t usual) {
  if (bytes == 0) return usual;
  const Lock lock(mutex_);
  const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, Store::kExpectedBytes));
  if (wanted > usual) {
    const std::size_t memory = AnswerBlock::capacity_for(wanted);
    drop_heads(memory);
    return expected_bytes_ + heads_->bytes + memory <= kAnswerBytes ? wanted : usual;
  }
  return std::max(wanted, std::min(kLeastBytes, usual));
}

void KnownObjects::expect(std::string_view key, std::unique_ptr<ExpectedObject> expected) {
  const std::size_t bytes = expected->head.capacity();
  const Lock lock(mutex_);
  expected_[std::string(key)] = std::move(expected);
  expected_bytes_ += bytes;
  claim_ended_.notify_all();
}

void KnownObjects::forget(std::string_view key) noexcept {
  const Lock lock(mutex_);
  std::erase_if(expected_, [&](const auto& one) { return one.first == key && !one.second; });
  claim_ended_.notify_all();
}

std::unique_ptr<ExpectedObject> KnownObjects::take_expected(std::string_view key) {
  std::unique_ptr<ExpectedObject> expected;
  {
    const Lock lock(mutex_);
    const auto at = expected_.find(std::string(key));
    if (at == expected_.end() || !at->second) return nullptr;
    expected = remove(at);
  }
  return is_out(*expected) ? nullptr : std::move(expected);
}

KnownObjects::Asking::Asking(KnownObjects& objects, std::string_view key, bool waits) : objects_(objects), key_(key) {
  Lock lock(objects_.mutex_);
  wait(lock, waits);
  Askers& askers = objects_.asking_[key_];
  if (askers.count++ == 0) askers.number = ++objects_.last_asker_;
}

// Those that waited for one that got no answer do not wait for each other: a server that fails would be asked by one
// after the other.
void KnownObjects::Asking::wait(Lock& lock, bool waits) {
  const auto number = [this]() DAMACY_REQUIRES(objects_.mutex_) {
    const auto at = objects_.asking_.find(key_);
    return at == objects_.asking_.end() ? 0 : at->second.number;
  };
  const bool keeps_answers = objects_.revalidate_after_ > std::chrono::milliseconds(0);
  for (bool has_waited = false;; has_waited = true) {
    objects_.claim_ended_.wait(lock, [&]() DAMACY_REQUIRES(objects_.mutex_) {
      const auto at = objects_.expected_.find(key_);
      return at == objects_.expected_.end() || at->second;
    });
    const std::uint64_t first = number();  // also one that waited for the same claim
    if (first == 0 || !keeps_answers || !waits || has_waited) return;
    while (!objects_.asking_ended_.wait_for(lock, kLook,
                                            [&]() DAMACY_REQUIRES(objects_.mutex_) { return number() != first; })) {
      const LockRelease meanwhile(lock, objects_.mutex_);  // who abandons this call may need the objects
      leave_if_unwanted();
    }
  }
}

KnownObjects::Asking::~Asking() {
  const Lock lock(objects_.mutex_);
  const auto at = objects_.asking_.find(key_);
  if (--at->second.count > 0) return;
  objects_.asking_.erase(at);
  objects_.asking_ended_.notify_all();
}

std::unique_ptr<ExpectedObject> KnownObjects::remove(Expected::iterator at) {
  std::unique_ptr<ExpectedObject> expected = std::move(at->second);
  expected_bytes_ -= expected->head.capacity();
  expected_.erase(at);
  return expected;
}

}  // namespace damacy::http
