#include "damacy/store/storage_watch.h"

#include <string>
#include <utility>

#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"
#include "damacy/store/started_read.h"

namespace damacy {
namespace {

thread_local StorageWatch* of_this_thread = nullptr;
thread_local const std::atomic<bool>* cancelled_of_this_thread = nullptr;

class WatchedObject final : public Object {
 public:
  WatchedObject(std::shared_ptr<Object> object, std::shared_ptr<Store> store, std::string_view key)
      : object_(std::move(object)), store_(std::move(store)), key_(key) {}
  const Stamp& stamp() const noexcept override { return object_->stamp(); }
  void read_exact(std::uint64_t offset, std::span<std::byte> dst) override {
    StorageWatch::operation("read", *store_, key_, [&] { object_->read_exact(offset, dst); });
  }
  void read_pieces(std::uint64_t offset, std::span<std::byte> dst, std::span<const StoredPiece> pieces) override {
    StorageWatch::operation("read", *store_, key_, [&] { object_->read_pieces(offset, dst, pieces); });
  }
  Nearness nearness(const StoredPiece& piece) noexcept override { return object_->nearness(piece); }
  void keep_piece(std::uint64_t offset, std::span<const std::byte> piece) noexcept override {
    object_->keep_piece(offset, piece);
  }
  bool forget_piece(const StoredPiece& piece) noexcept override { return object_->forget_piece(piece); }
  std::string version() const override { return object_->version(); }
  ReadShape read_shape() const noexcept override { return object_->read_shape(); }
  std::optional<WholeObject> whole() const override {
    auto whole = object_->whole();
    if (whole) whole->object = std::make_shared<WatchedObject>(std::move(whole->object), store_, key_);
    return whole;
  }
  Error as_of_part(const Error& error) const override { return object_->as_of_part(error); }
  HeldBytes held(std::uint64_t offset, std::uint64_t bytes) override { return object_->held(offset, bytes); }
  bool can_start_reads() const noexcept override { return object_->can_start_reads(); }
  std::unique_ptr<StartedRead> start_read(std::uint64_t offset, std::span<std::byte> dst,
                                          std::function<void()> landed) override {
    auto read = StorageWatch::operation("read", *store_, key_,
                                        [&] { return object_->start_read(offset, dst, std::move(landed)); });
    return finished_in(std::move(read), [store = store_, key = key_](const auto& finish) {
      StorageWatch::operation("read", *store, key, finish);
    });
  }

 private:
  const std::shared_ptr<Object> object_;
  const std::shared_ptr<Store> store_;
  const std::string key_;
};

class WatchedStore final : public Store {
 public:
  explicit WatchedStore(std::shared_ptr<Store> store) : store_(std::move(store)) {}
  std::string name() const override { return store_->name(); }
  bool is_remote() const noexcept override { return store_->is_remote(); }
  std::string identity() const override { return store_->identity(); }
  std::string cache_identity() const override { return store_->cache_identity(); }
  bool is_immutable() const noexcept override { return store_->is_immutable(); }
  std::string why_absent() override {
    return StorageWatch::operation("look up", *store_, "", [&] { return store_->why_absent(); });
  }
  std::shared_ptr<Object> open(std::string_view key) override {
    auto object = StorageWatch::operation("open", *store_, key, [&] { return store_->open(key); });
    if (!object) return nullptr;
    return std::make_shared<WatchedObject>(std::move(object), store_, key);
  }
  std::optional<Stamp> stamp(std::string_view key) override {
    return StorageWatch::operation("look up", *store_, key, [&] { return store_->stamp(key); });
  }
  const void* whole_id(std::string_view key) const override { return store_->whole_id(key); }
  bool can_expect() const noexcept override { return store_->can_expect(); }
  void expect(std::string_view key, const Expectation& read) override {
    StorageWatch::operation("open", *store_, key, [&] { store_->expect(key, read); });
  }
  void unexpect(std::string_view key) noexcept override { store_->unexpect(key); }
  std::vector<Entry> list(std::string_view prefix) override {
    return StorageWatch::operation("list", *store_, prefix, [&] { return store_->list(prefix); });
  }

 private:
  const std::shared_ptr<Store> store_;
};

}  // namespace

CancelScope::CancelScope(const std::atomic<bool>& flag) noexcept {
  cancelled_of_this_thread = &flag;
}

CancelScope::~CancelScope() {
  cancelled_of_this_thread = nullptr;
}

const std::atomic<bool>* CancelScope::current() noexcept {
  return cancelled_of_this_thread;
}

// Made before the first wait, because they serve when there is no memory to make an error.
struct StorageWatch::BriefErrors {
  const Error late{Status::io, "storage did not answer in time; no memory was left to say which object", "deadline"};
  const Error closed{Status::shutdown, "storage had not answered; no memory was left to say which object", "closed"};
  static const BriefErrors& instance() {
    static const auto* const made = new BriefErrors;  // never destroyed: threads may be stuck while the process exits
    return *made;
  }
};

StorageWatch::StorageWatch(std::shared_ptr<const Clock> clock)
    : clock_(std::move(clock)), brief_(BriefErrors::instance()) {}

StorageWatch* StorageWatch::current() noexcept {
  return of_this_thread;
}

void StorageWatch::attach_thread() noexcept {
  of_this_thread = this;
}

StorageWatch::Scope::Scope(Abandonable* work) noexcept : watch_(of_this_thread), work_(work) {
  if (watch_ == nullptr) return;
  const Lock lock(watch_->mutex_);
  outer_ = std::exchange(watch_->innermost_, this);
}

StorageWatch::Scope::~Scope() {
  if (watch_ == nullptr) return;
  const Lock lock(watch_->mutex_);
  watch_->innermost_ = outer_;
}

void StorageWatch::begin(std::string_view verb, const Store* store, std::string_view key) {
  const Clock::Time now = clock_->now();
  const Lock lock(mutex_);
  if (abandoned_) throw Abandoned();
  asking_ = true;
  began_ = now;
  verb_ = verb;
  store_ = store;
  key_ = key;
}

StorageWatch::Operation::Operation(std::string_view verb, const Store* store, std::string_view key)
    : watch_(of_this_thread) {
  if (watch_ != nullptr) watch_->begin(verb, store, key);
}

// Waits while the work is being abandoned.
bool StorageWatch::end() noexcept {
  const Lock lock(mutex_);
  asking_ = false;
  return !abandoned_;
}

void StorageWatch::Operation::end() {
  if (watch_ != nullptr && !std::exchange(watch_, nullptr)->end()) throw Abandoned();
}

// Empty when there is no memory for the text.
std::optional<Error> StorageWatch::describe(std::string_view why) const noexcept {
  const bool is_late = why.empty();
  const Status status = is_late ? Status::io : Status::shutdown;
  const std::string_view reason = is_late ? "deadline" : "closed";
  try {
    if (store_ == nullptr)
      return Error(
          status,
          formatted("timed out waiting for data or memory held by a storage operation that is not responding{}", why),
          std::string(reason));
    return Error(status, formatted("cannot {}: storage did not answer in time{}", verb_, why), std::string(reason))
        .at_key(key_)
        .at_store(store_->name());
  } catch (...) {  // std::bad_alloc, or what a store's name() throws
    return std::nullopt;
  }
}

bool StorageWatch::abandon(Clock::Time age, bool stuck, std::string_view why) noexcept {
  const Clock::Time now = clock_->now();
  const Lock lock(mutex_);
  if (!asking_ || abandoned_ || now - began_ < age || (store_ == nullptr && !stuck)) return false;
  if (innermost_ == nullptr) return false;
  for (const Scope* scope = innermost_; scope != nullptr; scope = scope->outer_)
    if (scope->work_ == nullptr) return false;
  abandoned_ = true;
  const std::optional<Error> described = describe(why);
  const Error& error = described ? *described : why.empty() ? brief_.late : brief_.closed;
  for (const Scope* scope = innermost_; scope != nullptr; scope = scope->outer_) scope->work_->abandon(error);
  return true;
}

bool StorageWatch::abandoned() const noexcept {
  const Lock lock(mutex_);
  return abandoned_;
}

std::shared_ptr<Store> make_watched_store(std::shared_ptr<Store> store) {
  return std::make_shared<WatchedStore>(std::move(store));
}

}  // namespace damacy
