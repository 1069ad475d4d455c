// What every Alloc does. A new implementation joins with
//   struct MyFixture { static TestedMemory make(); };
//   INSTANTIATE_TYPED_TEST_SUITE_P(My, AllocSuite, MyFixture);
// and the two memories of a device, whose DeviceSuite fixture is MyDevice, with
//   INSTANTIATE_TYPED_TEST_SUITE_P(My, AllocSuite, MemoriesOf<MyDevice>);
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "damacy/core/error.h"
#include "damacy/device/device.h"
#include "support/error_of.h"

namespace damacy {

struct TestedMemory {
  std::shared_ptr<Alloc> alloc;         // null: this machine has none
  std::shared_ptr<Device> device = {};  // whose streams access the memory; null: the host does
  std::size_t alignment = Alloc::kAlignment;
};

template <class DeviceFixture>
struct DeviceMemoryOf {
  static TestedMemory make() {
    const std::shared_ptr<Device> device = DeviceFixture::make();
    if (device == nullptr) return {};
    return {device->device_memory(), device, device->is_host() ? Alloc::kAlignment : 256};
  }
};

template <class DeviceFixture>
struct PinnedMemoryOf {
  static TestedMemory make() {
    const std::shared_ptr<Device> device = DeviceFixture::make();
    return {device == nullptr ? nullptr : device->pinned_memory()};
  }
};

template <class DeviceFixture>
using MemoriesOf = ::testing::Types<DeviceMemoryOf<DeviceFixture>, PinnedMemoryOf<DeviceFixture>>;

template <class Fixture>
class AllocSuite : public ::testing::Test {
 protected:
  static constexpr std::size_t kTooMuch = std::size_t{1} << 60;
  TestedMemory memory = Fixture::make();

  void SetUp() override {
    if (memory.alloc == nullptr) GTEST_SKIP() << "NOT TESTED: this machine has no such memory";
  }

  HostBuffer take(std::size_t bytes) const { return {memory.alloc, bytes}; }

  void fill(const HostBuffer& buffer, int value) const {
    if (memory.device == nullptr) {
      std::memset(buffer.data(), value, buffer.size());
      return;
    }
    const auto stream = memory.device->make_stream();
    stream->fill(buffer.bytes(), static_cast<std::byte>(value));
    stream->record().wait();
  }
  bool holds(const HostBuffer& buffer, int value) const {
    if (memory.device == nullptr) return all_are(buffer.bytes(), value);
    const HostBuffer back(memory.device->pinned_memory(), buffer.size());
    const auto stream = memory.device->make_stream();
    stream->copy(back.bytes(), buffer.bytes());
    stream->record().wait();
    return all_are(back.bytes(), value);
  }

 private:
  static bool all_are(std::span<const std::byte> bytes, int value) {
    return std::ranges::all_of(bytes, [value](std::byte b) { return b == static_cast<std::byte>(value); });
  }
};

TYPED_TEST_SUITE_P(AllocSuite);

TYPED_TEST_P(AllocSuite, every_byte_is_the_takers_alone) {
  std::vector<HostBuffer> buffers;
  for (const std::size_t bytes : {1, 255, 4096, 4097, (1 << 20) + 3, (5 << 20) + 1})
    buffers.push_back(this->take(bytes));
  for (std::size_t i = 0; i < buffers.size(); ++i) this->fill(buffers[i], static_cast<int>(i + 1));
  for (std::size_t i = 0; i < buffers.size(); ++i) EXPECT_TRUE(this->holds(buffers[i], static_cast<int>(i + 1))) << i;
}

TYPED_TEST_P(AllocSuite, memory_is_aligned_whatever_its_size) {
  std::vector<HostBuffer> buffers;
  for (const std::size_t bytes : {1, 3, 100, 4096, 5000, 3 << 20}) {
    buffers.push_back(this->take(bytes));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffers.back().data()) % this->memory.alignment, 0u) << bytes;
  }
}

TYPED_TEST_P(AllocSuite, memory_given_back_leaves_the_others_alone) {
  const HostBuffer kept = this->take(10'000);
  this->fill(kept, 7);
  for (int round = 0; round < 50; ++round) {
    const HostBuffer other = this->take(10'000);
    this->fill(other, 8);
  }
  EXPECT_TRUE(this->holds(kept, 7));
}

TYPED_TEST_P(AllocSuite, too_much_is_out_of_memory_and_changes_nothing) {
  const HostBuffer before = this->take(100);
  this->fill(before, 3);
  EXPECT_EQ(error_of([this] { (void)this->take(this->kTooMuch); }).status(), Status::oom);
  const HostBuffer after = this->take(100);
  this->fill(after, 4);
  EXPECT_TRUE(this->holds(before, 3));
  EXPECT_TRUE(this->holds(after, 4));
}

TYPED_TEST_P(AllocSuite, the_last_buffer_keeps_its_memory) {
  const HostBuffer buffer = this->take(5000);
  this->memory.alloc.reset();
  this->fill(buffer, 9);
  EXPECT_TRUE(this->holds(buffer, 9));
}

TYPED_TEST_P(AllocSuite, many_threads_take_and_give_back) {
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 1; t <= 4; ++t)
      threads.emplace_back([this, &wrong, t] {
        for (int i = 0; i < 25; ++i) {
          const HostBuffer buffer = this->take(static_cast<std::size_t>(t * 3000 + i));
          this->fill(buffer, t);
          if (!this->holds(buffer, t)) ++wrong;
        }
      });
  }
  EXPECT_EQ(wrong, 0);
}

REGISTER_TYPED_TEST_SUITE_P(AllocSuite, every_byte_is_the_takers_alone, memory_is_aligned_whatever_its_size,
                            memory_given_back_leaves_the_others_alone, too_much_is_out_of_memory_and_changes_nothing,
                            the_last_buffer_keeps_its_memory, many_threads_take_and_give_back);

}  // namespace damacy
