// A pool with a fixed number of objects, each lent to one user at a time. Knows waits; not what the objects are: those
// that streams use have the events after which they may be used again (FencedMemory). The object that was lent longest
// ago is lent first, because its last use is the oldest.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "damacy/core/mutex.h"

namespace damacy {

template <class T>
class Pool;

// A loan of one object; returns it when destroyed. Move-only.
template <class T>
class Lease {
 public:
  Lease(Lease&& other) noexcept = default;
  Lease& operator=(Lease&& other) noexcept {
    if (this != &other) {
      give_back();
      pool_ = std::move(other.pool_);
      slot_ = std::move(other.slot_);
    }
    return *this;
  }
  ~Lease() { give_back(); }

  T* operator->() const noexcept { return slot_.front().get(); }
  T& operator*() const noexcept { return *slot_.front(); }

 private:
  friend class Pool<T>;
  using State = typename Pool<T>::State;
  using Slots = typename Pool<T>::Slots;
  Lease(std::shared_ptr<State> pool, Slots slot) noexcept : pool_(std::move(pool)), slot_(std::move(slot)) {}
  void give_back() noexcept {
    if (pool_ != nullptr) pool_->give(slot_);
    pool_.reset();
  }

  std::shared_ptr<State> pool_;  // empty: moved from
  mutable Slots slot_;           // one
};

template <class T>
class Pool {
 public:
  explicit Pool(std::vector<std::unique_ptr<T>> things) : size_(things.size()), state_(std::make_shared<State>()) {
    for (auto& thing : things) state_->free.push_back(std::move(thing));
  }

  std::size_t size() const noexcept { return size_; }  // free or not
  // Waits until an object is free; empty if stopped.
  std::optional<Lease<T>> acquire(std::stop_token stop) {
    Lock lock(state_->mutex);
    if (!state_->changed.wait(lock, stop, [this]() DAMACY_REQUIRES(state_->mutex) { return !state_->free.empty(); }))
      return std::nullopt;
    return take();
  }

 private:
  friend class Lease<T>;

  using Slots = std::list<std::unique_ptr<T>>;  // nodes move between lists, so giving back cannot fail

  struct State {
    void give(Slots& slot) noexcept {
      const Lock lock(mutex);
      free.splice(free.end(), slot);
      changed.notify_one();
    }
    Mutex mutex;
    StoppableCondition changed;
    Slots free DAMACY_GUARDED_BY(mutex);
  };

  Lease<T> take() DAMACY_REQUIRES(state_->mutex) {
    Slots slot;
    slot.splice(slot.end(), state_->free, state_->free.begin());
    return Lease<T>(state_, std::move(slot));
  }

  std::size_t size_;
  std::shared_ptr<State> state_;
};

}  // namespace damacy
