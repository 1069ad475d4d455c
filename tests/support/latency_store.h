// Another store, farther away: every call takes at least so long, on the clock given. Knows time only through that
// clock.
#pragma once

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include "damacy/core/clock.h"
#include "damacy/store/store.h"

namespace damacy {

class LatencyStore final : public Store {
 public:
  LatencyStore(std::shared_ptr<Store> inner, std::shared_ptr<const Clock> clock, Clock::Time latency)
      : inner_(std::move(inner)), delay_{std::move(clock), latency} {}

  std::string name() const override { return inner_->name(); }
  std::shared_ptr<Object> open(std::string_view key) override {
    delay_.wait();
    auto object = inner_->open(key);
    if (!object) return nullptr;
    return std::make_shared<SlowObject>(std::move(object), delay_);
  }
  std::optional<Stamp> stamp(std::string_view key) override {
    delay_.wait();
    return inner_->stamp(key);
  }
  std::vector<Entry> list(std::string_view prefix) override {
    delay_.wait();
    return inner_->list(prefix);
  }

 private:
  struct Delay {
    std::shared_ptr<const Clock> clock;
    Clock::Time latency;

    void wait() const {
      constexpr Clock::Time kLook = std::chrono::microseconds(100);  // a clock may be turned by hand: look again
      const Clock::Time until = clock->now() + latency;
      for (Clock::Time now = clock->now(); now < until; now = clock->now())
        std::this_thread::sleep_for(std::min(until - now, kLook));
    }
  };

  class SlowObject final : public Object {
   public:
    SlowObject(std::shared_ptr<Object> inner, Delay delay) : inner_(std::move(inner)), delay_(std::move(delay)) {}
    const Stamp& stamp() const noexcept override { return inner_->stamp(); }
    void read_exact(std::uint64_t offset, std::span<std::byte> dst) override {
      delay_.wait();
      inner_->read_exact(offset, dst);
    }

   private:
    std::shared_ptr<Object> inner_;
    Delay delay_;
  };

  std::shared_ptr<Store> inner_;
  Delay delay_;
};

}  // namespace damacy
