// An object whose started reads land when the test says so. Reads without a thread, as remote objects do. Knows what is
// under way.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "damacy/core/mutex.h"
#include "damacy/store/store.h"

namespace damacy::testing {

class HeldObject final : public Object {
 public:
  explicit HeldObject(std::string bytes)
      : bytes_(std::move(bytes)), stamp_{.device = 1, .inode = 1, .size = bytes_.size()} {}

  const Stamp& stamp() const noexcept override { return stamp_; }
  void read_exact(std::uint64_t offset, std::span<std::byte> dst) override {
    std::memcpy(dst.data(), bytes_.data() + offset, dst.size());
  }
  bool can_start_reads() const noexcept override { return true; }
  std::unique_ptr<StartedRead> start_read(std::uint64_t offset, std::span<std::byte> dst,
                                          std::function<void()> landed) override {
    {
      const Lock lock(state_->mutex);
      state_->landed.push_back(std::move(landed));
      ++state_->started;
    }
    return std::make_unique<Read>(*this, offset, dst, state_);
  }

  // All that were started.
  void land() {
    std::vector<std::function<void()>> landed;
    {
      const Lock lock(state_->mutex);
      landed.swap(state_->landed);
    }
    for (const auto& one : landed) one();
  }
  std::size_t started() const {
    const Lock lock(state_->mutex);
    return state_->started;
  }
  std::size_t ended() const {
    const Lock lock(state_->mutex);
    return state_->ended;
  }

 private:
  struct State {
    Mutex mutex;
    std::vector<std::function<void()>> landed DAMACY_GUARDED_BY(mutex);
    std::size_t started DAMACY_GUARDED_BY(mutex) = 0, ended DAMACY_GUARDED_BY(mutex) = 0;
  };
  class Read final : public StartedRead {
   public:
    Read(HeldObject& object, std::uint64_t offset, std::span<std::byte> dst, std::shared_ptr<State> state)
        : object_(object), offset_(offset), dst_(dst), state_(std::move(state)) {}
    ~Read() override {
      const Lock lock(state_->mutex);
      ++state_->ended;
    }
    void finish() override { object_.read_exact(offset_, dst_); }

   private:
    HeldObject& object_;
    const std::uint64_t offset_;
    const std::span<std::byte> dst_;
    const std::shared_ptr<State> state_;
  };

  const std::string bytes_;
  const Stamp stamp_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace damacy::testing
