#include "sweeps/failing_new.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<bool> armed{false};
std::atomic<bool> failed{false};
std::atomic<std::uint64_t> count{0};
std::atomic<std::uint64_t> fail_at{0};
std::atomic<std::int64_t> live{0};
thread_local int spared = 0;
thread_local int starved = 0;

bool fails() noexcept {
  if (starved > 0) return true;
  if (!armed.load(std::memory_order_relaxed) || spared > 0) return false;
  if (count.fetch_add(1) + 1 != fail_at.load(std::memory_order_relaxed)) return false;
  failed = true;
  return true;
}

void* take(std::size_t bytes, std::size_t alignment) {
  if (fails()) throw std::bad_alloc();
  if (bytes == 0) bytes = 1;
  void* const memory = alignment <= alignof(std::max_align_t)
                           ? std::malloc(bytes)
                           : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  live.fetch_add(1, std::memory_order_relaxed);
  return memory;
}

void give(void* memory) noexcept {
  if (memory != nullptr) live.fetch_sub(1, std::memory_order_relaxed);
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t bytes) {
  return take(bytes, 1);
}
void* operator new[](std::size_t bytes) {
  return take(bytes, 1);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return take(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return take(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  give(memory);
}
void operator delete[](void* memory) noexcept {
  give(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  give(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  give(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  give(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  give(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  give(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  give(memory);
}

namespace damacy::testing {

void fail_allocation(std::uint64_t n) noexcept {
  count = 0;
  failed = false;
  fail_at = n;
  armed = true;
}
std::uint64_t end_failing() noexcept {
  armed = false;
  return count;
}
bool allocation_failed() noexcept {
  return failed;
}
std::int64_t live_allocations() noexcept {
  return live;
}

Spared::Spared() noexcept {
  ++spared;
}
Spared::~Spared() {
  --spared;
}

Starved::Starved() noexcept {
  ++starved;
}
Starved::~Starved() {
  --starved;
}

}  // namespace damacy::testing
