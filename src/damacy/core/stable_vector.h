// A vector whose items never move, and that allocates for many of them at a time. Items are added and removed at the
// end. Knows nothing of them.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace damacy {

template <class T, std::size_t kItemsOfABlock = 64>
class StableVector {
 public:
  StableVector() = default;
  StableVector(const StableVector&) = delete;
  StableVector& operator=(const StableVector&) = delete;
  ~StableVector() {
    while (size_ > 0) pop_back();
  }

  template <class... Arguments>
  T& emplace_back(Arguments&&... arguments) {
    if (size_ == blocks_.size() * kItemsOfABlock) blocks_.push_back(std::make_unique_for_overwrite<Block>());
    T* const item =
        new (blocks_[size_ / kItemsOfABlock]->at(size_ % kItemsOfABlock)) T(std::forward<Arguments>(arguments)...);
    ++size_;
    return *item;
  }
  void pop_back() noexcept {
    back().~T();
    --size_;
  }

  T& operator[](std::size_t number) noexcept {
    return *std::launder(reinterpret_cast<T*>(blocks_[number / kItemsOfABlock]->at(number % kItemsOfABlock)));
  }
  T& back() noexcept { return (*this)[size_ - 1]; }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }

 private:
  struct Block {
    alignas(T) std::byte bytes[kItemsOfABlock * sizeof(T)];
    void* at(std::size_t item) noexcept { return bytes + item * sizeof(T); }
  };
  std::vector<std::unique_ptr<Block>> blocks_;
  std::size_t size_ = 0;
};

}  // namespace damacy
