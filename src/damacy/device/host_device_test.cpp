#include "damacy/device/host_device.h"

#include "conformance/alloc_suite.h"
#include "conformance/device_suite.h"
#include "conformance/ordered_alloc_suite.h"
#include "damacy/device/fenced_memory.h"
#include "damacy/device/pool.h"

namespace damacy {
namespace {

using Kind = HostOrder::Kind;

template <Kind kind, std::uint64_t seed = 0, bool guard = true>
struct HostFixture {
  static std::shared_ptr<Device> make() { return make_host_device({.kind = kind, .seed = seed, .guard = guard}); }
};

using Eager = HostFixture<Kind::eager>;
using Lazy = HostFixture<Kind::lazy>;
using Random1 = HostFixture<Kind::random, 1>;
using Random2 = HostFixture<Kind::random, 2>;
INSTANTIATE_TYPED_TEST_SUITE_P(Eager, DeviceSuite, Eager);
INSTANTIATE_TYPED_TEST_SUITE_P(Lazy, DeviceSuite, Lazy);
INSTANTIATE_TYPED_TEST_SUITE_P(Random1, DeviceSuite, Random1);
INSTANTIATE_TYPED_TEST_SUITE_P(Random2, DeviceSuite, Random2);
INSTANTIATE_TYPED_TEST_SUITE_P(Eager, AllocSuite, MemoriesOf<Eager>);
INSTANTIATE_TYPED_TEST_SUITE_P(Lazy, AllocSuite, MemoriesOf<Lazy>);
INSTANTIATE_TYPED_TEST_SUITE_P(Random, AllocSuite, MemoriesOf<Random1>);
INSTANTIATE_TYPED_TEST_SUITE_P(Eager, OrderedAllocSuite, Eager);
INSTANTIATE_TYPED_TEST_SUITE_P(Lazy, OrderedAllocSuite, Lazy);
INSTANTIATE_TYPED_TEST_SUITE_P(Random1, OrderedAllocSuite, Random1);
INSTANTIATE_TYPED_TEST_SUITE_P(Random2, OrderedAllocSuite, Random2);

// A small engine with places for bugs: staging (reused) -> device buffer (reused) -> result, on two streams.
struct Bugs {
  bool no_wait_for_upload = false;   // the second stream does not wait for the first one's event
  bool no_wait_for_staging = false;  // the host writes staging before its last use
  bool no_reusable_after = false;    // the device buffer is overwritten before it was read
};

// How many of ten rounds come out wrong.
int wrong_rounds(HostOrder order, Bugs bugs) {
  const auto device = make_host_device(order);
  const HostBuffer pinned(device->pinned_memory(), 8), on_device(device->device_memory(), 8);
  FencedMemory staging(pinned.bytes()), scratch(on_device.bytes());
  const HostBuffer results(device->pinned_memory(), 80);
  const auto upload = device->make_stream();
  const auto compute = device->make_stream();
  for (std::size_t i = 0; i < 10; ++i) {
    if (!bugs.no_wait_for_staging) staging.ready().wait();
    std::memset(staging.bytes().data(), static_cast<int>(i + 1), 8);
    upload->wait(scratch.ready());
    upload->copy(scratch.bytes(), staging.bytes());
    const Event uploaded = upload->record();
    staging.reusable_after(uploaded);
    if (!bugs.no_wait_for_upload) compute->wait(uploaded);
    compute->copy(results.bytes().subspan(8 * i, 8), scratch.bytes());
    if (!bugs.no_reusable_after) scratch.reusable_after(compute->record());
  }
  compute->record().wait();
  int wrong = 0;
  for (std::size_t i = 0; i < 10; ++i) wrong += results.bytes()[8 * i] != static_cast<std::byte>(i + 1);
  return wrong;
}

// How many of many seeds show it.
int seeds_that_show(Bugs bugs) {
  int shown = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) shown += wrong_rounds({.kind = Kind::random, .seed = seed}, bugs) > 0;
  return shown;
}

TEST(HostDevice, the_small_engine_is_right_in_every_order) {
  EXPECT_EQ(wrong_rounds({.kind = Kind::eager}, {}), 0);
  EXPECT_EQ(wrong_rounds({.kind = Kind::lazy}, {}), 0);
  EXPECT_EQ(seeds_that_show({}), 0);
}

TEST(HostDevice, a_missing_wait_shows_on_the_lazy_device_and_not_on_the_eager_one) {
  const Bugs bugs{.no_wait_for_upload = true};
  EXPECT_EQ(wrong_rounds({.kind = Kind::eager}, bugs), 0);
  EXPECT_GT(wrong_rounds({.kind = Kind::lazy}, bugs), 0);
  EXPECT_GT(seeds_that_show(bugs), 0);
}

TEST(HostDevice, staging_written_too_early_shows_on_the_lazy_device) {
  const Bugs bugs{.no_wait_for_staging = true};
  EXPECT_EQ(wrong_rounds({.kind = Kind::eager}, bugs), 0);
  EXPECT_GT(wrong_rounds({.kind = Kind::lazy}, bugs), 0);
  EXPECT_GT(seeds_that_show(bugs), 0);
}

TEST(HostDevice, a_buffer_reused_too_early_shows_on_the_lazy_device) {
  const Bugs bugs{.no_reusable_after = true};
  EXPECT_EQ(wrong_rounds({.kind = Kind::eager}, bugs), 0);
  EXPECT_GT(wrong_rounds({.kind = Kind::lazy}, bugs), 0);
  EXPECT_GT(seeds_that_show(bugs), 0);
}

TEST(HostDevice, lazy_work_happens_when_it_is_waited_for_and_only_what_is_needed) {
  const auto device = make_host_device({.kind = Kind::lazy});
  const auto needed = device->make_stream();
  const auto other = device->make_stream();
  int needed_runs = 0, other_runs = 0, later_runs = 0;
  needed->host_task([&] { ++needed_runs; });
  other->host_task([&] { ++other_runs; });
  const Event event = needed->record();
  needed->host_task([&] { ++later_runs; });
  EXPECT_EQ(needed_runs, 0);
  EXPECT_FALSE(event.ready());
  event.wait();
  EXPECT_EQ(needed_runs, 1);
  EXPECT_EQ(other_runs, 0);
  EXPECT_EQ(later_runs, 0);
}

TEST(HostDevice, all_work_is_done_when_memory_is_given_back_and_at_the_latest_in_the_end) {
  auto device = make_host_device({.kind = Kind::lazy});
  auto stream = device->make_stream();
  int runs = 0;
  {
    const HostBuffer buffer(device->device_memory(), 8);
    stream->host_task([&] { ++runs; });
    EXPECT_EQ(runs, 0);
  }
  EXPECT_EQ(runs, 1);
  stream->host_task([&] { ++runs; });
  stream.reset();
  EXPECT_EQ(runs, 1);
  device.reset();
  EXPECT_EQ(runs, 2);
}

TEST(HostDevice, giving_back_memory_in_order_runs_no_work) {
  const auto device = make_host_device({.kind = HostOrder::Kind::lazy});
  const auto ordered = device->make_ordered_memory();
  const auto stream = device->make_stream();
  OrderedBuffer buffer(ordered, 8);
  stream->fill(buffer.bytes(), std::byte{1});
  const Event used = stream->record();
  buffer.free_after({used});
  buffer = {};
  EXPECT_FALSE(used.ready());
}

TEST(HostDevice, a_seed_replays_exactly) {
  const auto run = [](std::uint64_t seed) {
    const auto device = make_host_device({.kind = Kind::random, .seed = seed});
    std::vector<std::unique_ptr<Stream>> streams;
    for (int i = 0; i < 4; ++i) streams.push_back(device->make_stream());
    std::string order;
    for (int i = 0; i < 40; ++i)
      streams[static_cast<std::size_t>(i % 4)]->host_task([&order, i] { order += static_cast<char>('0' + i); });
    for (const auto& stream : streams) stream->record().wait();
    return order;
  };
  EXPECT_EQ(run(3), run(3));
  EXPECT_NE(run(3), run(4));
}

TEST(HostDevice, long_chains_of_waits_need_no_deep_call_stack) {
  const auto device = make_host_device({.kind = Kind::lazy});
  const auto a = device->make_stream();
  const auto b = device->make_stream();
  for (int i = 0; i < 200'000; ++i) {
    b->wait(a->record());
    a->wait(b->record());
  }
  EXPECT_TRUE(a->record().wait());
}

TEST(HostDevice, a_stream_cannot_wait_for_another_devices_event) {
  const auto here = make_host_device();
  const auto there = make_host_device();
  const Event event = there->make_stream()->record();
  EXPECT_THROW(here->make_stream()->wait(event), Error);
}

TEST(HostDeviceDeathTest, guarded_device_memory_is_not_for_the_host) {
  const auto device = make_host_device({.guard = true});
  const HostBuffer buffer(device->device_memory(), 8);
  EXPECT_DEATH(buffer.data()[0] = std::byte{1}, "");
}

void call_the_device_from_a_task() {
  const auto device = make_host_device({.kind = Kind::lazy});
  const auto stream = device->make_stream();
  stream->host_task([&] { (void)stream->record(); });
  stream->record().wait();
}

TEST(HostDeviceDeathTest, a_task_must_not_call_its_device) {
  EXPECT_DEATH(call_the_device_from_a_task(), "a task of a stream called its device");
}

TEST(Pool, lends_each_thing_once_and_the_longest_given_back_first) {
  std::vector<std::unique_ptr<int>> things;
  for (const int i : {1, 2}) things.push_back(std::make_unique<int>(i));
  Pool<int> pool(std::move(things));
  auto one = pool.acquire({});
  auto two = pool.acquire({});
  EXPECT_EQ(**one + **two, 3);
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_FALSE(pool.acquire(stopped.get_token()));
  const int first = **two;
  two.reset();
  one.reset();
  EXPECT_EQ(**pool.acquire({}), first);
}

TEST(Pool, a_stopped_wait_for_a_lease_is_empty) {
  Pool<int> pool({});
  std::stop_source stop;
  std::jthread stopper([&] { stop.request_stop(); });
  EXPECT_FALSE(pool.acquire(stop.get_token()));
}

TEST(Pool, a_lease_outlives_its_pool_and_moves) {
  auto pool = std::make_unique<Pool<int>>([] {
    std::vector<std::unique_ptr<int>> things;
    things.push_back(std::make_unique<int>(5));
    return things;
  }());
  auto lease = *pool->acquire({});
  auto moved = std::move(lease);
  pool.reset();
  EXPECT_EQ(*moved, 5);
}

TEST(FencedMemory, is_ready_at_first_and_then_after_its_last_use) {
  const auto device = make_host_device({.kind = HostOrder::Kind::lazy});
  const auto stream = device->make_stream();
  FencedMemory memory;
  EXPECT_TRUE(memory.ready().ready());
  bool used = false;
  stream->host_task([&] { used = true; });
  memory.reusable_after(stream->record());
  EXPECT_FALSE(memory.ready().ready());
  memory.ready().wait();
  EXPECT_TRUE(used);
}

}  // namespace
}  // namespace damacy
