// The transports that send from host memory, under their contract: within a process, and over a fake MPI.
#include "damacy/halo/transport.h"

#include <thread>

#include "conformance/transport_suite.h"
#include "damacy/core/error.h"
#include "damacy/halo/mpi.h"

namespace damacy {
namespace {

void on_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank)
    threads.emplace_back([&, rank] {
      fake_mpi::rank = rank;
      const auto failure = failure_of([&] { body(rank); });
      EXPECT_FALSE(failure.has_value()) << failure->what();
    });
  for (std::thread& thread : threads) thread.join();
}

struct LocalFixture {
  void on_ranks(int count, const std::function<void(int)>& body) {
    local = std::make_unique<halo::Local>(count);
    on_threads(count, body);
    EXPECT_EQ(local->waiting(), 0u);
  }
  std::unique_ptr<halo::Channels> open(int rank, halo::Rounds rounds) { return local->open(rank, std::move(rounds)); }
  std::unique_ptr<halo::Local> local;
};

struct MpiFixture {
  MpiFixture() {
    fake_mpi::world.channels.clear();
    fake_mpi::world.duplicates.clear();
    fake_mpi::world.freed = 0;
    fake_mpi::world.sends_stay = fake_mpi::world.finalized = false;
  }
  void on_ranks(int count, const std::function<void(int)>& body) {
    transports.resize(static_cast<std::size_t>(count));
    on_threads(count, [&](int rank) {
      auto& transport = transports[static_cast<std::size_t>(rank)];
      transport = std::make_unique<halo::MpiTransport>(MPI_COMM_WORLD);
      body(rank);
      transport.reset();
    });
    EXPECT_EQ(fake_mpi::world.requests, 0);
  }
  std::unique_ptr<halo::Channels> open(int rank, halo::Rounds rounds) {
    return transports[static_cast<std::size_t>(rank)]->open(rank, std::move(rounds));
  }
  std::vector<std::unique_ptr<halo::MpiTransport>> transports;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Local, TransportSuite, LocalFixture);
INSTANTIATE_TYPED_TEST_SUITE_P(Mpi, TransportSuite, MpiFixture);

}  // namespace
}  // namespace damacy
