// Exchanges over a fake NCCL, each rank on a thread and a host device of its own. On the lazy device a missing wait
// gives wrong cells.
#include "damacy/halo/transport.h"

#include <gtest/gtest.h>

#include <barrier>
#include <cstring>
#include <thread>

#include <dlfcn.h>

#include "damacy/core/formatted.h"
#include "damacy/device/host_device.h"
#include "damacy/halo/exchanger.h"
#include "fakes/fake_paths.h"
#include "fakes/libnccl/fake_libnccl.h"
#include "support/error_of.h"
#include "support/forwarding_device.h"

namespace damacy::halo {
namespace {

using Values = std::vector<std::int64_t>;

// The fake as a test holds it. Nothing fails at the start and at the end.
class FakeNccl {
 public:
  FakeNccl() { heal(); }
  FakeNccl(const FakeNccl&) = delete;
  FakeNccl& operator=(const FakeNccl&) = delete;
  ~FakeNccl() { heal(); }

  void fail(const char* name, std::uint64_t nth, int code) const {
    control<decltype(fake_nccl_fail)>("fake_nccl_fail")(name, nth, code);
  }
  void async_error(int code) const { control<decltype(fake_nccl_async_error)>("fake_nccl_async_error")(code); }
  std::uint64_t calls(const char* name) const { return control<decltype(fake_nccl_calls)>("fake_nccl_calls")(name); }
  std::int64_t waiting() const { return control<decltype(fake_nccl_waiting)>("fake_nccl_waiting")(); }
  void end_waits() const { control<decltype(fake_nccl_end_waits)>("fake_nccl_end_waits")(); }
  std::int64_t communicators() const { return control<decltype(fake_nccl_communicators)>("fake_nccl_communicators")(); }

 private:
  void heal() const {
    fail("", 0, 0);
    async_error(0);
  }
  template <class Function>
  Function* control(const char* name) const {
    return reinterpret_cast<Function*>(::dlsym(library_, name));
  }
  void* library_ = ::dlopen(kFakeNccl, RTLD_NOW | RTLD_LOCAL);
};

// Rank 0's id reaches all ranks, which are threads.
class Bootstrap {
 public:
  explicit Bootstrap(std::ptrdiff_t ranks) : all_(ranks) {}

  NcclTransport::Broadcast of(int rank) {
    return [this, rank](NcclId& id) {
      if (rank == 0) id_ = id;
      all_.arrive_and_wait();
      id = id_;
      all_.arrive_and_wait();
    };
  }

 private:
  std::barrier<> all_;
  NcclId id_{};
};

// Launches work on the calling thread, as CUDA does: a launch that waits delays no other user of the device.
class LaunchingDevice final : public testing::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  std::unique_ptr<Stream> make_stream() override { return std::make_unique<LaunchingStream>(inner().make_stream()); }

 private:
  class LaunchingStream final : public Stream {
   public:
    explicit LaunchingStream(std::unique_ptr<Stream> inner) : inner_(std::move(inner)) {}
    void copy(std::span<std::byte> dst, std::span<const std::byte> src) override { inner_->copy(dst, src); }
    void fill(std::span<std::byte> dst, std::byte value) override { inner_->fill(dst, value); }
    void host_task(std::function<void()> task) override { inner_->host_task(std::move(task)); }
    void enqueue(Work work) override {
      inner_->record().wait();
      work.on_host();
    }
    void wait(const Event& event) override { inner_->wait(event); }
    Event record(bool timed) override { return inner_->record(timed); }
    std::uint64_t native_handle() const noexcept override { return inner_->native_handle(); }

   private:
    const std::unique_ptr<Stream> inner_;
  };
};

// Calls body(rank, its transport, its device) on a thread for each rank.
template <class Body>
void on_ranks(int ranks, HostOrder::Kind order, Body body) {
  Bootstrap bootstrap(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      const auto device = make_host_device({order});
      NcclTransport transport(device, rank, ranks, bootstrap.of(rank), {.library = kFakeNccl});
      body(rank, transport, device);
    });
  for (auto& thread : threads) thread.join();
}

ExchangePlanPtr line_plan(std::int64_t rank, std::int64_t ranks, bool periodic = true, Dtype dtype = Dtype::i64) {
  const Cartesian grid({{Integers(static_cast<std::size_t>(ranks), 3)}, {periodic}, Corners::direct});
  return compile({dense_field({"i"}, {3}, 1, dtype)}, grid, {"i"}, rank, std::int64_t{1});
}

Values cells_of(std::int64_t rank, std::int64_t round) {
  return {-1, 100 * rank + round, 0, 100 * rank + round + 50, -1};
}

class NcclOnDevices : public ::testing::TestWithParam<HostOrder::Kind> {};
INSTANTIATE_TEST_SUITE_P(Nccl, NcclOnDevices, ::testing::Values(HostOrder::Kind::eager, HostOrder::Kind::lazy));

TEST_P(NcclOnDevices, messages_are_sent_in_the_order_of_the_stream) {
  const FakeNccl fake;
  on_ranks(3, GetParam(), [](int rank, NcclTransport& transport, const auto& device) {
    Exchanger exchanger(line_plan(rank, 3), transport, {.device = device});
    const auto stream = device->make_stream();
    for (std::int64_t round = 0; round < 5; ++round) {
      Values cells(5), produced = cells_of(rank, round), seen;
      stream->enqueue({[&] { cells = produced; }, {}});
      exchanger.exchange(*stream, {cells.data()});
      stream->enqueue({[&] { seen = cells; }, {}});
      stream->record().wait();
      EXPECT_EQ(seen[0], 100 * ((rank + 2) % 3) + round + 50);
      EXPECT_EQ(seen[4], 100 * ((rank + 1) % 3) + round);
    }
  });
  EXPECT_EQ(fake.communicators(), 0);
}

TEST_P(NcclOnDevices, an_exchange_may_be_finished_on_another_stream_than_it_was_started_on) {
  const FakeNccl fake;
  on_ranks(2, GetParam(), [](int rank, NcclTransport& transport, const auto& device) {
    Exchanger exchanger(line_plan(rank, 2), transport, {.depth = 1, .device = device});
    const auto first = device->make_stream(), second = device->make_stream();
    for (std::int64_t round = 0; round < 6; ++round) {
      Stream& start = round % 2 == 0 ? *first : *second;
      Stream& finish = round % 3 == 0 ? *first : *second;
      Values cells(5), produced = cells_of(rank, round), seen;
      start.enqueue({[&] { cells = produced; }, {}});
      auto token = exchanger.start(start, {cells.data()});
      exchanger.finish(finish, token);
      finish.enqueue({[&] { seen = cells; }, {}});
      finish.record().wait();
      EXPECT_EQ(seen[0], 100 * (1 - rank) + round + 50);
      EXPECT_EQ(seen[4], 100 * (1 - rank) + round);
    }
  });
}

// Rank 0 only sends, rank 1 only receives: there nothing is packed, and no packing orders the receives.
TEST_P(NcclOnDevices, receives_come_after_the_last_unpacking_although_nothing_is_packed) {
  const FakeNccl fake;
  on_ranks(2, GetParam(), [](int rank, NcclTransport& transport, const auto& device) {
    RankLinks own;
    own.dims = {"i"};
    if (rank == 0)
      own.links = {{1, Integers{1}, Integers{-1}, 0, CellBox{{2, 3}}, std::nullopt, 0}};
    else
      own.links = {{0, Integers{-1}, Integers{1}, 0, std::nullopt, CellBox{{-1, 0}}, 0}};
    const auto plan = compile({dense_field({"i"}, {3}, 1, Dtype::i64)}, own, rank, std::int64_t{1});
    Exchanger exchanger(plan, transport, {.depth = 1, .device = device});
    const auto first = device->make_stream(), second = device->make_stream();
    std::vector<Values> cells;
    for (std::int64_t round = 0; round < 4; ++round) cells.push_back(cells_of(rank, round));
    for (std::size_t round = 0; round < 4; ++round)
      exchanger.exchange(round % 2 == 0 ? *first : *second, {cells[round].data()});
    second->record().wait();  // of the last exchange, which waits for those before
    first->record().wait();
    for (std::int64_t round = 0; rank == 1 && round < 4; ++round)
      EXPECT_EQ(cells[static_cast<std::size_t>(round)][0], round + 50);
  });
}

TEST(Nccl, one_group_has_all_messages_of_an_exchange_and_host_memory_is_not_used) {
  const FakeNccl fake;
  std::barrier all(2);
  on_ranks(2, HostOrder::Kind::eager, [&](int rank, NcclTransport& transport, const auto& device) {
    Exchanger exchanger(line_plan(rank, 2), transport, {.device = device});
    const auto stream = device->make_stream();
    Values cells = cells_of(rank, 0);
    all.arrive_and_wait();
    const auto groups = fake.calls("ncclGroupEnd"), sends = fake.calls("ncclSend"), received = fake.calls("ncclRecv");
    all.arrive_and_wait();
    exchanger.exchange(*stream, {cells.data()});
    all.arrive_and_wait();
    EXPECT_EQ(fake.calls("ncclGroupEnd") - groups, 2U);  // of both ranks
    EXPECT_EQ(fake.calls("ncclSend") - sends, 2U);
    EXPECT_EQ(fake.calls("ncclRecv") - received, 2U);
    all.arrive_and_wait();
  });
}

TEST(Nccl, ranks_that_expect_other_messages_both_throw) {
  const FakeNccl fake;
  on_ranks(2, HostOrder::Kind::eager, [](int rank, NcclTransport& transport, const auto& device) {
    const auto plan = line_plan(rank, 2, true, rank == 0 ? Dtype::i64 : Dtype::f64);
    const Error error = error_of([&] { Exchanger(plan, transport, {.device = device}); });
    EXPECT_EQ(error.message(),
              formatted("rank {} and rank {} do not agree on fields, types, wire or links", rank, 1 - rank));
  });
}

// The group of the digests waits inside NCCL for a peer that never calls.
TEST(Nccl, a_link_without_its_counterpart_throws_after_the_timeout) {
  const FakeNccl fake;
  Bootstrap bootstrap(2);
  const auto transport_of = [&](int rank, const std::shared_ptr<Device>& device) {
    return std::make_unique<NcclTransport>(device, rank, 2, bootstrap.of(rank),
                                           NcclOptions{.library = kFakeNccl, .timeout = std::chrono::milliseconds(50)});
  };
  std::thread other([&] { static_cast<void>(transport_of(1, make_host_device())); });
  const auto device = std::make_shared<LaunchingDevice>(make_host_device());
  auto transport = transport_of(0, device);
  other.join();
  const auto plan = line_plan(0, 2);
  EXPECT_EQ(error_of([&] { Exchanger(plan, *transport, {.device = device}); }).message(),
            "rank 0 timed out after 50 ms: not all of the ranks 1 have exchangers with links to it. Every rank must "
            "construct its exchanger, and every link needs its counterpart");
  EXPECT_EQ(fake.waiting(), 1);
  EXPECT_NE(error_of([&] { Exchanger(plan, *transport, {.device = device}); }).message().find("timed out after 50"),
            std::string::npos);
  transport.reset();
  EXPECT_EQ(fake.communicators(), 1);  // of the thread that NCCL still holds
  fake.end_waits();
  while (fake.communicators() > 0) std::this_thread::yield();
}

TEST(Nccl, a_rank_without_a_transport_lets_the_others_time_out) {
  const FakeNccl fake;
  const NcclOptions options{.library = kFakeNccl, .timeout = std::chrono::milliseconds(50)};
  const Error error = error_of([&] { NcclTransport(make_host_device(), 0, 3, [](NcclId&) {}, options); });
  EXPECT_EQ(error.message(),
            "rank 0 timed out after 50 ms: not all of the 3 ranks have constructed their NcclTransport");
  EXPECT_EQ(fake.waiting(), 1);
  fake.end_waits();
}

TEST(Nccl, a_library_that_cannot_be_loaded_is_named_on_every_rank) {
  Bootstrap bootstrap(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      const Error error = error_of([&] {
        NcclTransport(make_host_device(), rank, 2, bootstrap.of(rank),
                      {.library = rank == 0 ? "/nowhere/libnccl.so" : kFakeNccl});
      });
      EXPECT_EQ(error.where().reason, kNoNccl);
      EXPECT_NE(error.message().find(rank == 0 ? "/nowhere/libnccl.so" : "rank 0 cannot use NCCL"), std::string::npos)
          << error.message();
    });
  for (auto& thread : threads) thread.join();
}

TEST(Nccl, a_call_that_fails_is_named_with_the_text_of_nccl_and_the_rank) {
  const FakeNccl fake;
  fake.fail("ncclCommInitRank", 1, 2);
  const auto device = make_host_device();
  const auto alone = [](NcclId&) {};
  const NcclOptions options{.library = kFakeNccl};
  Error error = error_of([&] { NcclTransport(device, 0, 1, alone, options); });
  EXPECT_EQ(error.message(), "rank 0: ncclCommInitRank failed: unhandled system error; the fake's last error");
  EXPECT_EQ(error.where().reason, kNcclFailed);

  on_ranks(2, HostOrder::Kind::eager, [&](int rank, NcclTransport& transport, const auto& own) {
    static std::barrier all(2);
    Exchanger exchanger(line_plan(rank, 2), transport, {.device = own});
    const auto stream = own->make_stream();
    Values cells = cells_of(rank, 0);
    all.arrive_and_wait();
    if (rank == 0) {
      fake.fail("ncclSend", 1, 2);
      EXPECT_EQ(error_of([&] { (void)exchanger.start(*stream, {cells.data()}); }).message(),
                "rank 0: ncclSend failed: unhandled system error; the fake's last error");
      EXPECT_NE(error_of([&] { (void)exchanger.start(*stream, {cells.data()}); }).message().find("failed half way"),
                std::string::npos);
    }
    all.arrive_and_wait();
    if (rank == 1) {
      fake.async_error(6);
      EXPECT_EQ(error_of([&] { (void)exchanger.start(*stream, {cells.data()}); }).message(),
                "rank 1: a send or receive of NCCL failed: remote process exited; the fake's last error");
      fake.async_error(0);
    }
    all.arrive_and_wait();
  });
}

TEST(Nccl, arguments_are_checked) {
  const auto alone = [](NcclId&) {};
  const NcclOptions options{.library = kFakeNccl};
  EXPECT_THROW(NcclTransport(nullptr, 0, 1, alone, options), Error);
  EXPECT_THROW(NcclTransport(make_host_device(), 1, 1, alone, options), Error);
  const auto device = make_host_device();
  NcclTransport transport(device, 0, 1, alone, options);
  EXPECT_EQ(error_of([&] { Exchanger(line_plan(0, 1), transport); }).message(),
            "this transport sends device memory: pass the device of the arrays in the options");
  EXPECT_EQ(error_of([&] { Exchanger(line_plan(1, 2), transport, {.device = device}); }).message(),
            "expected a plan of rank 0 (got one of rank 1)");
}

}  // namespace
}  // namespace damacy::halo
