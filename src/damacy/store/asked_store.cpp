#include "damacy/store/asked_store.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <unordered_map>
#include <utility>

#include <unistd.h>

#include "damacy/core/fork.h"
#include "damacy/core/formatted.h"
#include "damacy/core/mixed.h"
#include "damacy/store/storage_watch.h"

namespace damacy {
namespace {

constexpr std::size_t kKnownObjects = 65'536;
constexpr std::uint64_t kNoFile = std::uint64_t{1} << 63;  // no device of a file system has this bit

std::uint64_t random_number() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}

}  // namespace

template <class Set>
void StoreAnswer::settle(Set set) {
  {
    const Lock lock(mutex_);
    if (is_settled_ || is_given_up_) return;
    set();
    is_settled_ = true;
    changed_.notify_all();
  }
  settled();
}

void StoreAnswer::absent() {
  settle([] {});
}

void StoreAnswer::found(Found found, std::span<const std::byte> head) {
  settle([&] {
    found_ = std::move(found);
    head_.assign(head.begin(), head.end());
  });
}

void StoreAnswer::bytes(HeldBytes bytes) {
  settle([&] { bytes_ = std::move(bytes); });
}

void StoreAnswer::entries(std::vector<Entry> entries) {
  settle([&] { entries_ = std::move(entries); });
}

void StoreAnswer::fail(const Error& failure) {
  settle([&] { failure_ = failure; });
}

bool StoreAnswer::is_settled() {
  const Lock lock(mutex_);
  return is_settled_;
}

bool StoreAnswer::settles_within(std::chrono::milliseconds most) {
  Lock lock(mutex_);
  return changed_.wait_for(lock, most, [this]() DAMACY_REQUIRES(mutex_) { return is_settled_; });
}

void StoreAnswer::give_up() noexcept {
  {
    const Lock lock(mutex_);
    is_given_up_ = true;
  }
  cancel();
}

class AskedStore final : public Store, public std::enable_shared_from_this<AskedStore> {
 public:
  AskedStore(std::shared_ptr<Asker> asker, std::string name, Clock::Time revalidate, std::shared_ptr<const Clock> clock)
      : asker_(std::move(asker)), name_(std::move(name)), revalidate_(revalidate), clock_(std::move(clock)) {}

  Asker& asker() const noexcept { return *asker_; }
  std::string name() const override { return name_; }

  std::shared_ptr<Object> open(std::string_view key) override {
    check_key(key);
    const auto answer = ask({Question::What::open, key});
    if (!answer->found_) {
      forget(key);
      return nullptr;
    }
    const Stamp stamp = stamp_of(*answer->found_);
    keep(key, stamp);
    return std::make_shared<AskedObject>(shared_from_this(), std::string(key), stamp,
                                         std::move(answer->found_->version), std::move(answer->head_));
  }

  std::optional<Stamp> stamp(std::string_view key) override {
    check_key(key);
    if (const auto stamp = known(key)) return stamp;
    const auto answer = ask({Question::What::stamp, key});
    if (!answer->found_) {
      forget(key);
      return std::nullopt;
    }
    const Stamp stamp = stamp_of(*answer->found_);
    keep(key, stamp);
    return stamp;
  }

  std::vector<Entry> list(std::string_view prefix) override {
    if (!prefix.empty()) check_key(prefix);
    auto entries = std::move(ask({Question::What::list, prefix})->entries_);
    std::ranges::sort(entries, {}, &Entry::name);
    return entries;
  }

 private:
  class AskedObject final : public Object {
   public:
    AskedObject(std::shared_ptr<AskedStore> store, std::string key, const Stamp& stamp, std::string version,
                std::vector<std::byte> head)
        : store_(std::move(store)),
          key_(std::move(key)),
          stamp_(stamp),
          version_(std::move(version)),
          head_(std::move(head)) {}

    const Stamp& stamp() const noexcept override { return stamp_; }
    void read_exact(std::uint64_t offset, std::span<std::byte> dst) override {
      const std::uint64_t left = offset < stamp_.size ? stamp_.size - offset : 0;
      if (left < dst.size())
        throw at(Error(Status::io, formatted("short read: {} of {} bytes", left, dst.size()), "short-read"), offset,
                 dst.size());
      if (offset < head_.size()) {
        const std::size_t here = std::min<std::size_t>(head_.size() - offset, dst.size());
        std::memcpy(dst.data(), head_.data() + offset, here);
        offset += here;
        dst = dst.subspan(here);
      }
      if (!dst.empty()) ask_for(offset, dst);
    }

   private:
    void ask_for(std::uint64_t offset, std::span<std::byte> dst) {
      try {
        const auto answer = store_->ask({Question::What::read, key_, offset, dst.size(), version_, stamp_.size});
        if (!answer->bytes_) throw Error(Status::io, "the object was removed while it was read", "changed");
        const std::span<const std::byte> from = answer->bytes_->bytes;
        if (from.size() != dst.size())
          throw Error(Status::io, formatted("the store returned {} bytes for a range of {}", from.size(), dst.size()),
                      "range");
        std::ranges::copy(from, dst.begin());
      } catch (const Error& error) {
        if (error.where().reason == "changed") store_->forget(key_);
        throw at(error, offset, dst.size());
      }
    }
    Error at(Error error, std::uint64_t offset, std::size_t size) const {
      return error.at_bytes(offset, offset + size).at_key(key_).at_store(store_->name_);
    }

    const std::shared_ptr<AskedStore> store_;
    const std::string key_;
    const Stamp stamp_;
    const std::string version_;
    const std::vector<std::byte> head_;  // the first bytes, which came with the size
  };

  struct Known {
    Stamp stamp;
    Clock::Time when;
  };
  struct Versions {
    Mutex mutex;
    std::unordered_map<std::string, Known> of DAMACY_GUARDED_BY(mutex);
  };

  std::shared_ptr<StoreAnswer> ask(const Question& question) {
    try {
      auto answer = asker_->ask(question);
      wait(*answer);
      if (answer->failure_) throw *answer->failure_;
      return answer;
    } catch (Error& error) {
      throw error.at_key(question.key).at_store(name_);
    }
  }

  // Throws if the thread was abandoned, or no answer comes any more.
  void wait(StoreAnswer& answer) {
    constexpr auto kLook = std::chrono::milliseconds(50);
    while (!answer.settles_within(kLook)) {
      const StorageWatch* const watch = StorageWatch::current();
      const bool is_abandoned = watch != nullptr && watch->abandoned();
      const bool is_cancelled = watch != nullptr && watch->remote_is_cancelled();
      const std::optional<Error> ended = asker_->why_ended();
      if (!is_abandoned && !is_cancelled && !ended) continue;
      answer.give_up();
      if (is_abandoned) throw Error(Status::io, "the store did not answer in time", "deadline");
      if (is_cancelled) throw Error(Status::shutdown, "the request was cancelled: its pipeline was closed", "closed");
      throw *ended;
    }
  }

  // Objects of two stores never have the same stamp, also if the stores belong to two processes: caches may be shared.
  // A forked child has a store of its own, whose versions may be counted as its parent's are. A version may be empty,
  // and times are not those of this system: by the stamp no object is settled (store/noticed_change.h).
  Stamp stamp_of(const StoreAnswer::Found& found) const {
    return {
        .device = kNoFile | mixed(number_ + static_cast<std::uint64_t>(::getpid())),
        .inode = mixed(std::hash<std::string>()(found.version) + mixed(static_cast<std::uint64_t>(found.modified_ns))),
        .size = found.size,
        .modified_ns = std::numeric_limits<std::int64_t>::max()};
  }

  std::optional<Stamp> known(std::string_view key) {
    Versions& known = known_.get();
    const Lock lock(known.mutex);
    const auto at = known.of.find(std::string(key));
    if (at == known.of.end() || clock_->now() - at->second.when >= revalidate_) return std::nullopt;
    return at->second.stamp;
  }
  void keep(std::string_view key, const Stamp& stamp) {
    if (revalidate_ == Clock::Time::zero()) return;
    Versions& known = known_.get();
    const Lock lock(known.mutex);
    if (known.of.size() >= kKnownObjects) known.of.clear();
    known.of.insert_or_assign(std::string(key), Known{stamp, clock_->now()});
  }
  void forget(std::string_view key) {
    Versions& known = known_.get();
    const Lock lock(known.mutex);
    known.of.erase(std::string(key));
  }

  const std::shared_ptr<Asker> asker_;
  const std::string name_;
  const Clock::Time revalidate_;
  const std::shared_ptr<const Clock> clock_;
  const std::uint64_t number_ = random_number();
  PerProcess<Versions> known_;
};

std::shared_ptr<Store> make_asked_store(std::shared_ptr<Asker> asker, std::string name, Clock::Time revalidate,
                                        std::shared_ptr<const Clock> clock) {
  if (clock == nullptr) clock = std::make_shared<SteadyClock>();
  return std::make_shared<AskedStore>(std::move(asker), std::move(name), revalidate, std::move(clock));
}

Asker* asker_of(const Store& store) noexcept {
  const auto* const asked = dynamic_cast<const AskedStore*>(&store);
  return asked == nullptr ? nullptr : &asked->asker();
}

}  // namespace damacy
