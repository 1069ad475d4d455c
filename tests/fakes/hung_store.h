// Another store of which chosen calls do not return until the test lets them: storage that does not answer. What a
// hung read was given to fill is written when it is let go, as a system call would.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "damacy/store/store.h"

namespace damacy::testing {

class HungStore final : public Store {
 public:
  enum class Call { open, stamp, list, read };
  static constexpr std::byte kLate{0xee};  // what a hung read writes in the end

  explicit HungStore(std::shared_ptr<Store> inner) : inner_(std::move(inner)) {}
  ~HungStore() override { let_go(); }

  // From here on such calls of keys that end in `suffix` hang, after `answered` of them, at most `count`.
  void hang(Call call, std::string suffix, std::size_t count = ~std::size_t{0}, std::size_t answered = 0) {
    const std::lock_guard lock(gate_->mutex);
    gate_->call = call;
    gate_->suffix = std::move(suffix);
    gate_->left = count;
    gate_->answered = answered;
    gate_->open = false;
  }
  // All of them return, and no more hang. Waits until they have.
  void let_go() {
    std::unique_lock lock(gate_->mutex);
    gate_->open = true;
    gate_->left = 0;
    gate_->changed.notify_all();
    gate_->changed.wait(lock, [this] { return gate_->inside == 0; });
  }
  void wait_until_hung(std::size_t calls = 1) {
    std::unique_lock lock(gate_->mutex);
    gate_->changed.wait(lock, [&] { return gate_->hung >= calls; });
  }
  std::size_t hung() const {
    const std::lock_guard lock(gate_->mutex);
    return gate_->hung;
  }

  std::atomic<bool> remote{false}, immutable{false};  // what it says of itself

  // Keys and offsets of all reads, in the order in which they began.
  std::vector<std::pair<std::string, std::uint64_t>> reads() const {
    const std::lock_guard lock(gate_->mutex);
    return gate_->reads;
  }

  std::string name() const override { return inner_->name(); }
  bool is_remote() const noexcept override { return remote; }
  bool is_immutable() const noexcept override { return immutable; }
  std::shared_ptr<Object> open(std::string_view key) override {
    gate_->pass(Call::open, key);
    auto object = inner_->open(key);
    if (!object) return nullptr;
    return std::make_shared<HungObject>(std::move(object), gate_, std::string(key));
  }
  std::optional<Stamp> stamp(std::string_view key) override {
    gate_->pass(Call::stamp, key);
    return inner_->stamp(key);
  }
  const void* whole_id(std::string_view key) const override { return inner_->whole_id(key); }
  std::vector<Entry> list(std::string_view prefix) override {
    gate_->pass(Call::list, prefix);
    return inner_->list(prefix);
  }

 private:
  struct Gate {
    std::mutex mutex;
    std::condition_variable changed;
    Call call = Call::open;
    std::string suffix;
    std::size_t left = 0, answered = 0;
    std::size_t hung = 0;    // so far
    std::size_t inside = 0;  // now
    bool open = true;
    std::vector<std::pair<std::string, std::uint64_t>> reads;

    // Whether it hung; what it does then is done by `late`, before the test goes on.
    template <class Late>
    bool pass(Call which, std::string_view key, Late late) {
      std::unique_lock lock(mutex);
      if (left == 0 || which != call || !key.ends_with(suffix)) return false;
      if (answered > 0) {
        --answered;
        return false;
      }
      --left;
      ++hung;
      ++inside;
      changed.notify_all();
      changed.wait(lock, [this] { return open; });
      late();
      --inside;
      changed.notify_all();
      return true;
    }
    bool pass(Call which, std::string_view key) {
      return pass(which, key, [] {});
    }
    void note(const std::string& key, std::uint64_t offset) {
      const std::lock_guard lock(mutex);
      reads.emplace_back(key, offset);
    }
  };

  class HungObject final : public Object {
   public:
    HungObject(std::shared_ptr<Object> inner, std::shared_ptr<Gate> gate, std::string key)
        : inner_(std::move(inner)), gate_(std::move(gate)), key_(std::move(key)) {}
    const Stamp& stamp() const noexcept override { return inner_->stamp(); }
    void read_exact(std::uint64_t offset, std::span<std::byte> dst) override {
      gate_->note(key_, offset);
      const auto late = [&] { std::memset(dst.data(), static_cast<int>(kLate), dst.size()); };
      if (!gate_->pass(Call::read, key_, late)) inner_->read_exact(offset, dst);
    }

   private:
    std::shared_ptr<Object> inner_;
    std::shared_ptr<Gate> gate_;
    std::string key_;
  };

  const std::shared_ptr<Store> inner_;
  const std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
};

}  // namespace damacy::testing
