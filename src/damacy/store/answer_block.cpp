#include "damacy/store/answer_block.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

#include "damacy/core/checked.h"
#include "damacy/core/fork.h"
#include "damacy/core/mutex.h"

namespace damacy {
namespace {

using Memory = std::unique_ptr<std::byte[]>;

constexpr std::size_t kUnit = 16 << 10;       // capacities are multiples, so that blocks of one array fit each other
constexpr std::size_t kSteps = 32;            // capacities from a power of two to the next
constexpr std::size_t kLeast = 4 << 10;       // or this: of most documents
constexpr std::size_t kIdleBytes = 64 << 20;  // of blocks that no answer uses

// Blocks that no answer uses, by capacity.
class IdleBlocks {
 public:
  Memory take(std::size_t capacity) {
    {
      const Lock lock(mutex_);
      const auto at = blocks_.find(capacity);
      if (at != blocks_.end() && !at->second.empty()) {
        Memory memory = std::move(at->second.back());
        at->second.pop_back();
        bytes_ -= capacity;
        return memory;
      }
    }
    return std::make_unique_for_overwrite<std::byte[]>(capacity);
  }

  // Those of other capacities make room: they may be of arrays that nothing reads any more.
  void give(Memory memory, std::size_t capacity) noexcept {
    Blocks others;  // freed without the lock
    const Lock lock(mutex_);
    try {
      std::vector<Memory>& same = blocks_[capacity];
      if (bytes_ + capacity > kIdleBytes && same.size() * capacity < bytes_) {
        std::vector<Memory> kept = std::move(same);
        others.swap(blocks_);
        bytes_ = kept.size() * capacity;
        blocks_[capacity] = std::move(kept);
      }
      if (bytes_ + capacity > kIdleBytes) return;
      blocks_[capacity].push_back(std::move(memory));
      bytes_ += capacity;
    } catch (const std::bad_alloc&) {  // it is freed
    }
  }

 private:
  using Blocks = std::unordered_map<std::size_t, std::vector<Memory>>;

  Mutex mutex_;
  Blocks blocks_ DAMACY_GUARDED_BY(mutex_);
  std::size_t bytes_ DAMACY_GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::size_t AnswerBlock::capacity_for(std::size_t bytes) noexcept {
  if (bytes <= kLeast) return kLeast;
  return round_up(bytes, std::max(kUnit, std::bit_floor(bytes) / kSteps));
}

AnswerBlock::~AnswerBlock() {
  if (memory_) one_per_process<IdleBlocks>().give(std::move(memory_), capacity_);
}

AnswerBlock::AnswerBlock(AnswerBlock&& other) noexcept
    : memory_(std::move(other.memory_)),
      size_(std::exchange(other.size_, 0)),
      capacity_(std::exchange(other.capacity_, 0)) {}

AnswerBlock& AnswerBlock::operator=(AnswerBlock&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(size_, other.size_);
  std::swap(capacity_, other.capacity_);
  return *this;
}

void AnswerBlock::resize(std::size_t bytes) {
  if (bytes > capacity_) {
    const std::size_t capacity = capacity_for(bytes);
    AnswerBlock larger;
    larger.memory_ = one_per_process<IdleBlocks>().take(capacity);
    larger.capacity_ = capacity;
    *this = std::move(larger);
  }
  size_ = bytes;
}

void AnswerBlock::shrink() {
  if (size_ > kUnit || capacity_ <= capacity_for(size_)) return;
  AnswerBlock smaller(size_);
  if (size_ > 0) std::memcpy(smaller.memory_.get(), memory_.get(), size_);
  *this = std::move(smaller);
}

}  // namespace damacy
