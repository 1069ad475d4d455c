// What every Device does, whatever it runs on. A new implementation joins with
//   struct MyFixture { static std::shared_ptr<Device> make(); };
//   INSTANTIATE_TYPED_TEST_SUITE_P(My, DeviceSuite, MyFixture);
// Host memory is touched only where an event was waited for, device memory never.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "damacy/core/error.h"
#include "damacy/device/device.h"
#include "damacy/device/fenced_memory.h"

namespace damacy {

template <class Fixture>
class DeviceSuite : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = 4096;
  std::shared_ptr<Device> device = Fixture::make();  // null: this machine has none

  void SetUp() override {
    if (device == nullptr) GTEST_SKIP() << "NOT TESTED: this machine has no such device";
  }

  HostBuffer pinned(int value, std::size_t bytes = kBytes) {
    HostBuffer buffer(device->pinned_memory(), bytes);
    std::memset(buffer.data(), value, bytes);
    return buffer;
  }
  HostBuffer on_device(std::size_t bytes = kBytes) { return HostBuffer(device->device_memory(), bytes); }

  static bool holds(const HostBuffer& buffer, int value) {
    return std::ranges::all_of(buffer.bytes(), [value](std::byte b) { return b == static_cast<std::byte>(value); });
  }
};

TYPED_TEST_SUITE_P(DeviceSuite);

TYPED_TEST_P(DeviceSuite, has_a_name_and_streams_of_its_own) {
  EXPECT_FALSE(this->device->name().empty());
  EXPECT_GE(this->device->index(), 0);
  const auto a = this->device->make_stream();
  const auto b = this->device->make_stream();
  EXPECT_EQ(a->native_handle() == 0, this->device->is_host());
  EXPECT_EQ(a->native_handle() == b->native_handle(), this->device->is_host());
  EXPECT_EQ(this->device->memory().has_value(), !this->device->is_host());
  EXPECT_NO_THROW(this->device->check_usable());
}

TYPED_TEST_P(DeviceSuite, memory_is_aligned_and_apart) {
  const HostBuffer a = this->on_device(1);
  const HostBuffer b = this->on_device(1000);
  const HostBuffer c = this->pinned(0, 1);
  EXPECT_NE(a.data(), b.data());
  for (const auto* buffer : {&a, &b, &c}) EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->data()) % 256, 0u);
}

TYPED_TEST_P(DeviceSuite, bytes_go_to_the_device_and_come_back) {
  const HostBuffer there = this->pinned(7), back = this->pinned(0);
  const HostBuffer a = this->on_device(), b = this->on_device();
  const auto stream = this->device->make_stream();
  stream->copy(a.bytes(), there.bytes());
  stream->copy(b.bytes(), a.bytes());
  stream->copy(back.bytes(), b.bytes());
  EXPECT_TRUE(stream->record().wait());
  EXPECT_TRUE(this->holds(back, 7));
}

TYPED_TEST_P(DeviceSuite, fills_bytes_and_copies_nothing_when_asked_for_nothing) {
  const HostBuffer back = this->pinned(0);
  const HostBuffer a = this->on_device();
  const auto stream = this->device->make_stream();
  stream->fill(a.bytes(), std::byte{0xa5});
  stream->fill({}, std::byte{1});
  stream->copy({}, {});
  stream->copy(back.bytes(), a.bytes());
  EXPECT_TRUE(stream->record().wait());
  EXPECT_TRUE(this->holds(back, 0xa5));
}

TYPED_TEST_P(DeviceSuite, refuses_a_copy_between_different_sizes) {
  const HostBuffer a = this->pinned(0), b = this->pinned(1);
  const auto stream = this->device->make_stream();
  EXPECT_THROW(stream->copy(a.bytes(), b.bytes().first(1)), Error);
}

TYPED_TEST_P(DeviceSuite, many_copies_are_in_the_order_of_the_stream_or_refused) {
  constexpr std::size_t kCopies = 600;
  const HostBuffer there = this->pinned(0, kCopies), back = this->pinned(0, 2 * kCopies);
  const HostBuffer on_device = this->on_device(2 * kCopies);
  for (std::size_t i = 0; i < kCopies; ++i) there.bytes()[i] = static_cast<std::byte>(i * 7 % 251);
  const auto stream = this->device->make_stream();
  stream->fill(on_device.bytes(), std::byte{0xa5});
  std::vector<MemoryCopy> copies;
  for (std::size_t i = 0; i < kCopies; ++i)
    copies.push_back({on_device.bytes().subspan(2 * i, 1), there.bytes().subspan(kCopies - 1 - i, 1)});
  const bool copied = stream->copy_many(copies);
  EXPECT_EQ(stream->copy_many({}), copied);
  stream->copy(back.bytes(), on_device.bytes());
  EXPECT_TRUE(stream->record().wait());
  for (std::size_t i = 0; i < 2 * kCopies; ++i) {
    const std::byte moved = copied && i % 2 == 0 ? there.bytes()[kCopies - 1 - i / 2] : std::byte{0xa5};
    ASSERT_EQ(back.bytes()[i], moved) << i;
  }
}

TYPED_TEST_P(DeviceSuite, one_stream_keeps_its_order) {
  const auto stream = this->device->make_stream();
  std::string order;
  for (const char c : {'a', 'b', 'c', 'd'}) stream->host_task([&order, c] { order += c; });
  stream->record().wait();
  EXPECT_EQ(order, "abcd");
}

TYPED_TEST_P(DeviceSuite, a_stream_waits_for_another_ones_event) {
  const HostBuffer source = this->pinned(3), back = this->pinned(0);
  const HostBuffer middle = this->on_device();
  const auto first = this->device->make_stream();
  const auto second = this->device->make_stream();
  for (int round = 0; round < 20; ++round) {
    first->copy(middle.bytes(), source.bytes());
    second->wait(first->record());
    second->copy(back.bytes(), middle.bytes());
    first->wait(second->record());
  }
  second->record().wait();
  EXPECT_TRUE(this->holds(back, 3));
}

TYPED_TEST_P(DeviceSuite, an_event_is_ready_in_the_end_and_stays_so) {
  const auto stream = this->device->make_stream();
  std::atomic<bool> ran{false};
  stream->host_task([&] { ran = true; });
  const Event event = stream->record();
  while (!event.ready()) std::this_thread::yield();
  EXPECT_TRUE(ran);
  EXPECT_TRUE(event.ready());
  EXPECT_TRUE(event.wait());
}

TYPED_TEST_P(DeviceSuite, an_event_recorded_again_stands_for_the_later_work) {
  const auto stream = this->device->make_stream();
  std::atomic<int> done{0};
  Event event;
  for (int i = 1; i <= 3; ++i) {
    stream->together([&] {
      stream->host_task([&, i] { done = i; });
      stream->record_again(event);
    });
    event.wait();
    EXPECT_EQ(done, i);
  }
}

TYPED_TEST_P(DeviceSuite, an_event_stands_for_what_was_before_it) {
  const auto stream = this->device->make_stream();
  std::atomic<int> done{0};
  stream->host_task([&] { done = 1; });
  const Event first = stream->record();
  const Event same = first;
  first.wait();
  EXPECT_GE(done, 1);
  EXPECT_TRUE(same.ready());
  stream->host_task([&] { done = 2; });
  stream->record().wait();
  EXPECT_EQ(done, 2);
}

TYPED_TEST_P(DeviceSuite, memory_of_another_owner_can_be_page_locked_and_used_as_pinned) {
  const HostBuffer there(std::make_shared<PageAlloc>(), this->kBytes), back = this->pinned(0);
  std::memset(there.data(), 7, there.size());
  for (int again = 0; again < 2; ++again) {
    const std::shared_ptr<void> locked = this->device->page_lock(there.bytes());
    EXPECT_TRUE(this->holds(there, 7));
    const HostBuffer a = this->on_device();
    const auto stream = this->device->make_stream();
    stream->copy(a.bytes(), there.bytes());
    stream->copy(back.bytes(), a.bytes());
    EXPECT_TRUE(stream->record().wait());
    EXPECT_TRUE(this->holds(back, 7));
  }
}

TYPED_TEST_P(DeviceSuite, a_default_event_has_always_passed) {
  const Event none;
  EXPECT_TRUE(none.ready());
  EXPECT_TRUE(none.wait());
  const auto stream = this->device->make_stream();
  stream->wait(none);
  EXPECT_TRUE(stream->record().wait());
}

TYPED_TEST_P(DeviceSuite, a_stopped_wait_says_so) {
  const auto stream = this->device->make_stream();
  std::stop_source stop;
  stop.request_stop();
  const Event event = stream->record();
  EXPECT_FALSE(event.wait(stop.get_token()));
  EXPECT_TRUE(event.wait());
}

TYPED_TEST_P(DeviceSuite, timed_events_tell_the_time_between_them) {
  const auto stream = this->device->make_stream();
  const Event untimed = stream->record();
  const Event begin = stream->record(/*timed=*/true);
  stream->host_task([] {});
  const Event end = stream->record(/*timed=*/true);
  begin.wait();
  end.wait();
  ASSERT_TRUE(end.ms_since(begin));
  EXPECT_GE(*end.ms_since(begin), 0);
  EXPECT_FALSE(end.ms_since(untimed));
  EXPECT_FALSE(end.ms_since(Event()));
}

TYPED_TEST_P(DeviceSuite, work_runs_in_stream_order_in_the_form_the_device_has) {
  const HostBuffer source = this->pinned(1), back = this->pinned(0);
  const HostBuffer a = this->on_device();
  const auto stream = this->device->make_stream();
  std::uint64_t launched_on = 0;
  bool ran_on_host = false;
  stream->copy(a.bytes(), source.bytes());
  stream->enqueue({.on_host = [&] { ran_on_host = true; },
                   .launch =
                       [&](std::uint64_t handle) {
                         launched_on = handle;
                         return 0;
                       }});
  stream->copy(back.bytes(), a.bytes());
  stream->record().wait();
  EXPECT_EQ(ran_on_host, this->device->is_host());
  EXPECT_EQ(launched_on, stream->native_handle());
  EXPECT_TRUE(this->holds(back, 1));
}

TYPED_TEST_P(DeviceSuite, a_stream_may_go_before_its_work_is_done) {
  const HostBuffer source = this->pinned(9), back = this->pinned(0);
  const HostBuffer a = this->on_device();
  auto stream = this->device->make_stream();
  stream->copy(a.bytes(), source.bytes());
  stream->copy(back.bytes(), a.bytes());
  const Event done = stream->record();
  stream.reset();
  done.wait();
  EXPECT_TRUE(this->holds(back, 9));
}

TYPED_TEST_P(DeviceSuite, streams_buffers_and_events_outlive_the_device_handle) {
  const HostBuffer source = this->pinned(4), back = this->pinned(0);
  auto stream = this->device->make_stream();
  this->device.reset();
  stream->copy(back.bytes(), source.bytes());
  const Event done = stream->record();
  stream.reset();
  EXPECT_TRUE(done.wait());
  EXPECT_TRUE(this->holds(back, 4));
}

TYPED_TEST_P(DeviceSuite, another_thread_may_wait) {
  const HostBuffer source = this->pinned(5), back = this->pinned(0);
  const auto stream = this->device->make_stream();
  stream->copy(back.bytes(), source.bytes());
  const Event done = stream->record();
  bool right = false;
  std::jthread([&] { right = done.wait() && this->holds(back, 5); }).join();
  EXPECT_TRUE(right);
}

TYPED_TEST_P(DeviceSuite, a_ring_of_staging_buffers_carries_every_byte_in_order) {
  const HostBuffer pinned[] = {this->pinned(0, 64), this->pinned(0, 64)};
  FencedMemory ring[] = {FencedMemory(pinned[0].bytes()), FencedMemory(pinned[1].bytes())};
  const HostBuffer on_device = this->on_device(50 * 64);
  const HostBuffer back = this->pinned(0, 50 * 64);
  const auto upload = this->device->make_stream();
  for (std::size_t i = 0; i < 50; ++i) {
    FencedMemory& staging = ring[i % 2];
    staging.ready().wait();
    std::memset(staging.bytes().data(), static_cast<int>(i), 64);
    upload->copy(on_device.bytes().subspan(i * 64, 64), staging.bytes());
    staging.reusable_after(upload->record());
  }
  const auto download = this->device->make_stream();
  download->wait(upload->record());
  download->copy(back.bytes(), on_device.bytes());
  download->record().wait();
  for (std::size_t i = 0; i < 50 * 64; ++i) ASSERT_EQ(back.bytes()[i], static_cast<std::byte>(i / 64)) << i;
}

TYPED_TEST_P(DeviceSuite, foreign_streams_can_be_fenced_and_made_to_wait) {
  const auto ours = this->device->make_stream();
  const auto theirs = this->device->make_stream();
  const Event done = ours->record();
  this->device->make_wait(theirs->native_handle(), done);
  EXPECT_TRUE(this->device->try_fence(theirs->native_handle()).value().wait());
  EXPECT_TRUE(this->device->try_fence(0).value().wait());
  const Event all = this->device->fence_all(/*spare_captures=*/false);
  EXPECT_TRUE(all.wait());
  if (all.for_streams()) {  // drivers before CUDA 12.5 have one for the host only
    ours->wait(all);
    EXPECT_TRUE(ours->record().wait());
  }
  const Event spared = this->device->fence_all(/*spare_captures=*/true);
  EXPECT_TRUE(spared.wait());
  EXPECT_TRUE(spared.ready());
}

REGISTER_TYPED_TEST_SUITE_P(
    DeviceSuite, memory_of_another_owner_can_be_page_locked_and_used_as_pinned, has_a_name_and_streams_of_its_own,
    memory_is_aligned_and_apart, bytes_go_to_the_device_and_come_back,
    fills_bytes_and_copies_nothing_when_asked_for_nothing, refuses_a_copy_between_different_sizes,
    many_copies_are_in_the_order_of_the_stream_or_refused, one_stream_keeps_its_order,
    a_stream_waits_for_another_ones_event, an_event_is_ready_in_the_end_and_stays_so,
    an_event_recorded_again_stands_for_the_later_work, an_event_stands_for_what_was_before_it,
    a_default_event_has_always_passed, a_stopped_wait_says_so, timed_events_tell_the_time_between_them,
    work_runs_in_stream_order_in_the_form_the_device_has, a_stream_may_go_before_its_work_is_done,
    streams_buffers_and_events_outlive_the_device_handle, another_thread_may_wait,
    a_ring_of_staging_buffers_carries_every_byte_in_order, foreign_streams_can_be_fenced_and_made_to_wait);

}  // namespace damacy
