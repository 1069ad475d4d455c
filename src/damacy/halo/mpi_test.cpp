// The transport of MPI, over a fake MPI whose ranks are threads.
#include "damacy/halo/mpi.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <thread>

#include "damacy/halo/exchanger.h"
#include "support/error_of.h"

namespace damacy::halo {
namespace {

using Values = std::vector<std::int64_t>;

void on_ranks(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank)
    threads.emplace_back([&, rank] {
      fake_mpi::rank = rank;
      const auto failure = failure_of([&] { body(rank); });
      EXPECT_FALSE(failure.has_value()) << failure->what();
    });
  for (auto& thread : threads) thread.join();
}

ExchangePlanPtr ring_plan(std::int64_t rank, std::int64_t ranks, Dtype dtype = Dtype::i64) {
  const Cartesian grid({{Integers(static_cast<std::size_t>(ranks), 3)}, {true}, Corners::direct});
  return compile({dense_field({"i"}, {3}, 1, dtype)}, grid, {"i"}, rank, std::int64_t{1});
}

Values cells_of_rank(std::int64_t rank) {
  return {-1, 10 * rank + 1, 10 * rank + 2, 10 * rank + 3, -1};
}

class Mpi : public ::testing::Test {
 protected:
  void SetUp() override {
    fake_mpi::world.channels.clear();
    fake_mpi::world.duplicates.clear();
    fake_mpi::world.freed = 0;
    fake_mpi::world.sends_stay = fake_mpi::world.finalized = false;
  }
  void TearDown() override { EXPECT_EQ(fake_mpi::world.requests, 0); }
};

TEST_F(Mpi, ranks_exchange_many_times_and_free_their_requests) {
  on_ranks(3, [](int rank) {
    MpiTransport transport(MPI_COMM_WORLD);
    EXPECT_EQ(transport.rank(), rank);
    Exchanger exchanger(ring_plan(rank, 3), transport);
    Values line = cells_of_rank(rank);
    for (int round = 0; round < 5; ++round) {
      exchanger.exchange({line.data()});
      EXPECT_EQ(line[0], 10 * ((rank + 2) % 3) + 3 + round);
      EXPECT_EQ(line[4], 10 * ((rank + 1) % 3) + 1 + round);
      for (std::size_t i = 1; i < 4; ++i) ++line[i];
    }
  });
  EXPECT_EQ(fake_mpi::world.freed, 3);
}

TEST_F(Mpi, ranks_may_finish_exchanges_in_another_order) {
  on_ranks(2, [](int rank) {
    MpiTransport transport(MPI_COMM_WORLD);
    Exchanger exchanger(ring_plan(rank, 2), transport);
    Values early = cells_of_rank(rank), late = cells_of_rank(rank + 4);
    auto first = exchanger.start({early.data()}), second = exchanger.start({late.data()});
    exchanger.finish(rank == 0 ? second : first);
    exchanger.finish(rank == 0 ? first : second);
    EXPECT_EQ(early[0], 10 * (1 - rank) + 3);
    EXPECT_EQ(late[0], 10 * (5 - rank) + 3);
  });
}

TEST_F(Mpi, ranks_may_start_exchangers_in_another_order) {
  on_ranks(2, [](int rank) {
    MpiTransport transport(MPI_COMM_WORLD);
    Exchanger first(ring_plan(rank, 2), transport), second(ring_plan(rank, 2), transport);
    Values own = cells_of_rank(rank), other = cells_of_rank(rank + 4);
    auto token = rank == 0 ? first.start({own.data()}) : second.start({other.data()});
    auto later = rank == 0 ? second.start({other.data()}) : first.start({own.data()});
    first.finish(rank == 0 ? token : later);
    second.finish(rank == 0 ? later : token);
    EXPECT_EQ(own[0], 10 * (1 - rank) + 3);
    EXPECT_EQ(other[0], 10 * (5 - rank) + 3);
  });
}

TEST_F(Mpi, ranks_that_expect_other_messages_are_told) {
  on_ranks(2, [](int rank) {
    MpiTransport transport(MPI_COMM_WORLD);
    const auto plan = ring_plan(rank, 2, rank == 0 ? Dtype::i64 : Dtype::f64);
    EXPECT_NE(error_of([&] { Exchanger(plan, transport); }).message().find("do not agree"), std::string::npos);
  });
}

TEST_F(Mpi, a_link_without_its_counterpart_is_an_error_and_no_hang) {
  RankLinks links;
  links.links.push_back({1, Integers{1}, Integers{-1}, 0, CellBox{{2, 3}}, CellBox{{3, 4}}, 0});
  links.dims = {"i"};
  const auto plan = compile({dense_field({"i"}, {3}, 1, Dtype::i64)}, links, 0, std::int64_t{1});
  const Error error = error_of([&] {
    MpiTransport transport(MPI_COMM_WORLD, std::chrono::milliseconds(0));
    Exchanger(plan, transport);
  });
  EXPECT_EQ(error.status(), Status::io);
  EXPECT_EQ(error.message().find("rank 0 timed out after 0 s: ranks [1] have no exchanger with links to it"), 0u);
  EXPECT_EQ(fake_mpi::world.freed, 0);  // its context id would be used again, with the message that is left
}

TEST_F(Mpi, a_plan_of_another_rank_is_refused) {
  MpiTransport transport(MPI_COMM_WORLD);
  EXPECT_EQ(error_of([&] { Exchanger(ring_plan(1, 2), transport); }).message(),
            "expected a plan of rank 0 (got one of rank 1)");
}

// Two ranks that send each other eight bytes.
struct Pair {
  explicit Pair(int rank) : channels(transport.open(rank, {{{{{1 - rank, sent}}, {{1 - rank, received}}}}})) {}
  MpiTransport transport{MPI_COMM_WORLD};
  std::array<std::byte, 8> sent{}, received{};
  std::unique_ptr<Channels> channels;
};

void open(Pair& pair, int rank) {
  (void)pair.channels->exchange_digests({{1 - rank, {}}});
}

TEST_F(Mpi, the_receives_of_a_retry_stay_posted) {
  on_ranks(2, [](int rank) {
    Pair pair(rank);
    open(pair, rank);
    for (int round = 1; round < 4; ++round) {
      pair.sent.fill(static_cast<std::byte>(10 * rank + round));
      pair.channels->post_receives(0, 0);
      pair.channels->post_receives(0, 0);
      pair.channels->send(0, 0);
      pair.channels->wait_received(0, 0);
      pair.channels->wait_sent(0, 0);
      EXPECT_EQ(pair.received[7], static_cast<std::byte>(10 * (1 - rank) + round));
    }
    EXPECT_TRUE(pair.channels->close());
  });
}

TEST_F(Mpi, closing_tells_whether_buffers_may_still_be_read) {
  fake_mpi::world.sends_stay = true;
  on_ranks(2, [](int rank) {
    Pair pair(rank);
    open(pair, rank);
    pair.channels->post_receives(0, 0);
    if (rank == 0) pair.channels->send(0, 0);
    EXPECT_EQ(pair.channels->close(), rank == 1);
  });
}

TEST_F(Mpi, closing_cancels_receives_and_keeps_buffers_that_are_still_sent) {
  fake_mpi::world.sends_stay = true;
  on_ranks(2, [](int rank) {
    MpiTransport transport(MPI_COMM_WORLD);
    Exchanger exchanger(ring_plan(rank, 2), transport);
    Values line = cells_of_rank(rank);
    if (rank == 0) (void)exchanger.start({line.data()});
    exchanger.close();
    EXPECT_THROW((void)exchanger.start({line.data()}), Error);
  });
}

}  // namespace
}  // namespace damacy::halo
