// What the OrderedAlloc of every Device does. A device joins with its DeviceSuite fixture:
//   INSTANTIATE_TYPED_TEST_SUITE_P(My, OrderedAllocSuite, MyFixture);
// Memory is accessed by streams only.
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
#include "damacy/device/ordered_alloc.h"
#include "support/error_of.h"

namespace damacy {

template <class Fixture>
class OrderedAllocSuite : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = 4096;
  std::shared_ptr<Device> device = Fixture::make();  // null: this machine has none
  std::shared_ptr<OrderedAlloc> ordered;

  void SetUp() override {
    if (device != nullptr) ordered = device->make_ordered_memory();
    if (ordered == nullptr) GTEST_SKIP() << "NOT TESTED: no device here, or none with memory in the order of a stream";
  }

  OrderedBuffer take(std::size_t bytes = kBytes) const { return {ordered, bytes}; }
  HostBuffer pinned(int value, std::size_t bytes = kBytes) const {
    HostBuffer buffer(device->pinned_memory(), bytes);
    std::memset(buffer.data(), value, bytes);
    return buffer;
  }
  static bool holds(const HostBuffer& buffer, int value) {
    return std::ranges::all_of(buffer.bytes(), [value](std::byte b) { return b == static_cast<std::byte>(value); });
  }
};

TYPED_TEST_SUITE_P(OrderedAllocSuite);

TYPED_TEST_P(OrderedAllocSuite, memory_is_aligned_and_apart) {
  const auto stream = this->device->make_stream();
  std::vector<OrderedBuffer> buffers;
  for (const std::size_t bytes : {1, 300, 4096, 5000}) {
    buffers.push_back(this->take(bytes));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffers.back().data()) % 256, 0u) << bytes;
    stream->wait(buffers.back().ready());
    stream->fill(buffers.back().bytes(), static_cast<std::byte>(buffers.size()));
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const HostBuffer back = this->pinned(0, buffers[i].bytes().size());
    stream->copy(back.bytes(), buffers[i].bytes());
    stream->record().wait();
    EXPECT_TRUE(this->holds(back, static_cast<int>(i + 1))) << i;
    buffers[i].free_after({stream->record()});
  }
}

TYPED_TEST_P(OrderedAllocSuite, memory_is_given_back_behind_its_last_use) {
  const HostBuffer source = this->pinned(6), other = this->pinned(1), back = this->pinned(0);
  const auto stream = this->device->make_stream();
  const auto later = this->device->make_stream();
  for (int round = 0; round < 20; ++round) {
    OrderedBuffer buffer = this->take();
    stream->wait(buffer.ready());
    stream->copy(buffer.bytes(), source.bytes());
    stream->copy(back.bytes(), buffer.bytes());
    buffer.free_after({stream->record()});
    buffer = {};
    OrderedBuffer next = this->take();  // may be the same memory
    later->wait(next.ready());
    later->copy(next.bytes(), other.bytes());
    const Event used = later->record();
    used.wait();
    next.free_after({used});
    stream->record().wait();
    ASSERT_TRUE(this->holds(back, 6)) << round;
    std::memset(back.data(), 0, back.size());
  }
}

TYPED_TEST_P(OrderedAllocSuite, memory_is_given_back_behind_the_uses_of_all_streams) {
  constexpr std::size_t kStreams = 3;
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<HostBuffer> backs;
  for (std::size_t i = 0; i < kStreams; ++i) {
    streams.push_back(this->device->make_stream());
    backs.push_back(this->pinned(0));
  }
  OrderedBuffer buffer = this->take();
  streams[0]->wait(buffer.ready());
  streams[0]->fill(buffer.bytes(), std::byte{5});
  const Event filled = streams[0]->record();
  std::vector<Event> uses;
  for (std::size_t i = 0; i < kStreams; ++i) {
    streams[i]->wait(filled);
    streams[i]->copy(backs[i].bytes(), buffer.bytes());
    uses.push_back(streams[i]->record());
  }
  buffer.free_after(uses);
  buffer = {};
  (void)HostBuffer(this->device->device_memory(), 1);  // on a host device all work is done when this is given back
  for (const Event& use : uses) use.wait();
  for (const HostBuffer& back : backs) EXPECT_TRUE(this->holds(back, 5));
}

TYPED_TEST_P(OrderedAllocSuite, memory_that_was_not_used_may_go_at_once) {
  for (int round = 0; round < 20; ++round) (void)this->take();
  const auto stream = this->device->make_stream();
  EXPECT_TRUE(stream->record().wait());
}

TYPED_TEST_P(OrderedAllocSuite, too_much_is_out_of_memory_and_changes_nothing) {
  EXPECT_EQ(error_of([this] { (void)this->take(std::size_t{1} << 60); }).status(), Status::oom);
  const OrderedBuffer buffer = this->take();
  EXPECT_NE(buffer.data(), nullptr);
}

TYPED_TEST_P(OrderedAllocSuite, buffers_outlive_the_handles) {
  const HostBuffer back = this->pinned(0);
  auto stream = this->device->make_stream();
  {
    OrderedBuffer buffer = this->take();
    this->ordered.reset();
    this->device.reset();
    stream->wait(buffer.ready());
    stream->fill(buffer.bytes(), std::byte{2});
    stream->copy(back.bytes(), buffer.bytes());
    buffer.free_after({stream->record()});
  }
  EXPECT_TRUE(stream->record().wait());
  EXPECT_TRUE(this->holds(back, 2));
}

TYPED_TEST_P(OrderedAllocSuite, many_threads_take_and_give_back) {
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 1; t <= 4; ++t)
      threads.emplace_back([this, &wrong, t] {
        const auto stream = this->device->make_stream();
        const HostBuffer back = this->pinned(0);
        for (int i = 0; i < 25; ++i) {
          OrderedBuffer buffer = this->take();
          stream->wait(buffer.ready());
          stream->fill(buffer.bytes(), static_cast<std::byte>(t));
          stream->copy(back.bytes(), buffer.bytes());
          const Event used = stream->record();
          buffer.free_after({used});
          used.wait();
          if (!this->holds(back, t)) ++wrong;
        }
      });
  }
  EXPECT_EQ(wrong, 0);
}

REGISTER_TYPED_TEST_SUITE_P(OrderedAllocSuite, memory_is_aligned_and_apart, memory_is_given_back_behind_its_last_use,
                            memory_is_given_back_behind_the_uses_of_all_streams,
                            memory_that_was_not_used_may_go_at_once, too_much_is_out_of_memory_and_changes_nothing,
                            buffers_outlive_the_handles, many_threads_take_and_give_back);

}  // namespace damacy
