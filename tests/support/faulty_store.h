// Wraps a store and injects failures: at the n-th counted call, or at calls chosen by a seed. The same calls in the
// same order fail in the same way.
#pragma once

#include <atomic>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/store/store.h"

namespace damacy {

struct Fault {
  enum class Call { any, open, stamp, list, read };
  enum class Kind {
    error,       // Error(io, "io") with `error_number`
    short_read,  // half of the bytes, then Error(io, "short-read"); calls other than reads pass
    changed,     // reads give other bytes, and stamps differ, as if the object had been rewritten in place
  };
  Call call = Call::any;  // which calls are counted
  Kind kind = Kind::error;
  std::uint64_t at = 0;   // the call that fails, from 1; 0: none
  bool for_ever = false;  // and all later calls
  std::uint64_t seed = 0;
  std::uint64_t one_in = 0;  // with `seed`: about one call in so many; 0: none
  int error_number = EIO;
};

class FaultyStore final : public Store {
 public:
  FaultyStore(std::shared_ptr<Store> inner, const Fault& fault)
      : inner_(std::move(inner)), plan_(std::make_shared<Plan>(fault)) {}

  std::uint64_t calls() const noexcept { return plan_->calls; }
  std::uint64_t faults() const noexcept { return plan_->faults; }

  std::string name() const override { return inner_->name(); }
  std::shared_ptr<Object> open(std::string_view key) override {
    const bool changed = plan_->strike(Fault::Call::open, *this, key);
    auto object = inner_->open(key);
    if (!object) return nullptr;
    return std::make_shared<FaultyObject>(std::move(object), plan_, std::string(key), name(), changed);
  }
  std::optional<Stamp> stamp(std::string_view key) override {
    const bool changed = plan_->strike(Fault::Call::stamp, *this, key);
    auto found = inner_->stamp(key);
    if (found && changed) found = other(*found);
    return found;
  }
  std::vector<Entry> list(std::string_view prefix) override {
    plan_->strike(Fault::Call::list, *this, prefix);
    return inner_->list(prefix);
  }

 private:
  static Stamp other(Stamp stamp) noexcept {
    ++stamp.modified_ns;
    return stamp;
  }

  struct Plan {
    explicit Plan(const Fault& given) : fault(given) {}
    const Fault fault;
    std::atomic<std::uint64_t> calls{0};
    std::atomic<std::uint64_t> faults{0};

    // Counts a call and returns whether it must fail.
    bool hits(Fault::Call call) noexcept {
      if (fault.call != Fault::Call::any && fault.call != call) return false;
      const std::uint64_t n = ++calls;
      const bool at = fault.at != 0 && (fault.for_ever ? n >= fault.at : n == fault.at);
      const bool by_seed = fault.one_in != 0 && mixed(fault.seed + n) % fault.one_in == 0;
      if (at || by_seed) ++faults;
      return at || by_seed;
    }

    // For calls other than reads: throws, or returns whether the call must see a changed object.
    bool strike(Fault::Call call, const Store& store, std::string_view key) {
      if (fault.kind == Fault::Kind::short_read || !hits(call)) return false;
      if (fault.kind == Fault::Kind::error) throw error(store.name(), key);
      return true;
    }

    Error error(std::string_view store, std::string_view key) const {
      return Error(Status::io, "injected", "io").with_errno(fault.error_number).at_key(key).at_store(store);
    }

    static std::uint64_t mixed(std::uint64_t x) noexcept {  // splitmix64
      x += 0x9e3779b97f4a7c15;
      x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
      x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
      return x ^ (x >> 31);
    }
  };

  class FaultyObject final : public Object {
   public:
    FaultyObject(std::shared_ptr<Object> inner, std::shared_ptr<Plan> plan, std::string key, std::string store,
                 bool changed)
        : inner_(std::move(inner)),
          plan_(std::move(plan)),
          key_(std::move(key)),
          store_(std::move(store)),
          stamp_(changed ? other(inner_->stamp()) : inner_->stamp()) {}

    const Stamp& stamp() const noexcept override { return stamp_; }

    void read_exact(std::uint64_t offset, std::span<std::byte> dst) override {
      if (!plan_->hits(Fault::Call::read)) return inner_->read_exact(offset, dst);
      switch (plan_->fault.kind) {
        case Fault::Kind::error:
          throw plan_->error(store_, key_).at_bytes(offset, offset + dst.size());
        case Fault::Kind::short_read:
          inner_->read_exact(offset, dst.first(dst.size() / 2));
          throw Error(Status::io, formatted("short read: {} of {} bytes", dst.size() / 2, dst.size()), "short-read")
              .at_bytes(offset, offset + dst.size())
              .at_key(key_)
              .at_store(store_);
        case Fault::Kind::changed:
          inner_->read_exact(offset, dst);
          if (!dst.empty()) dst[dst.size() / 2] ^= std::byte{0x55};
      }
    }

   private:
    std::shared_ptr<Object> inner_;
    std::shared_ptr<Plan> plan_;
    std::string key_;
    std::string store_;
    Stamp stamp_;
  };

  std::shared_ptr<Store> inner_;
  std::shared_ptr<Plan> plan_;
};

}  // namespace damacy
