// Every scenario with its n-th call of a kind failing, for n = 1, 2, ... until a run ends without having met it. After
// each: all laws of the scenario, buffers, descriptors and threads as before, and a good run of a new pipeline.
//
// DAMACY_SWEEP_EVERY=1 tries every n; by default some are left out, so that it takes seconds.
#include <cstdlib>
#include <iostream>

#include <gtest/gtest.h>

#include "damacy/core/formatted.h"
#include "damacy/device/host_device.h"
#include "damacy/store/engine.h"
#include "fakes/failing_alloc.h"
#include "support/error_of.h"
#include "support/eventually.h"
#include "support/faulty_store.h"
#include "support/tested_engines.h"
#include "sweeps/failing_new.h"
#include "sweeps/failing_threads.h"
#include "sweeps/footprint.h"
#include "sweeps/guarded_alloc.h"
#include "sweeps/scenario.h"
#include "sweeps/spared_device.h"
#include "sweeps/stored_arrays.h"

namespace damacy::testing {
namespace {

std::uint64_t stride(std::uint64_t usual) {
  const char* every = std::getenv("DAMACY_SWEEP_EVERY");
  return every == nullptr ? usual : std::strtoull(every, nullptr, 10);
}

constexpr std::int64_t kOwnAllocations = 16;  // of the sweep itself

std::string name_of(Fault::Call call, Fault::Kind kind) {
  const std::string_view of_call = call == Fault::Call::open ? "open" : call == Fault::Call::stamp ? "stat" : "read";
  const std::string_view of_kind = kind == Fault::Kind::error        ? "error"
                                   : kind == Fault::Kind::short_read ? "short"
                                                                     : "another version";
  return formatted("{}: {}", of_call, of_kind);
}

class FailureSweep : public ::testing::TestWithParam<TestedEngine> {
 protected:
  World world_with(std::shared_ptr<Store> store, std::shared_ptr<Alloc> alloc) const {
    World world{std::move(store), std::move(alloc), nullptr};
    if (GetParam().device) world.device = std::make_shared<SparedDevice>(make_host_device(*GetParam().device));
    return world;
  }

  // Runs all scenarios for all n; `run` arms the n-th failure, runs, and says whether it was met.
  template <class Run>
  void sweep(std::string_view kind, std::uint64_t every, Run run) {
    std::uint64_t injected = 0, runs = 0;
    expect_good_run("nothing");  // what is taken once
    const Footprint before = footprint();
    const std::int64_t live = live_allocations();
    std::int64_t most_live = live;
    for (const Scenario& scenario : scenarios()) {
      for (std::uint64_t n = 1;; n += every) {
        Outcome outcome;
        const auto guarded = std::make_shared<GuardedAlloc>();
        const bool met = run(scenario, n, guarded, outcome);
        ++runs;
        injected += met ? 1 : 0;
        const std::string where = formatted("{}, {} {}", scenario.name, kind, n);
        ASSERT_EQ(outcome.wrong, "") << where;
        ASSERT_EQ(guarded->held(), 0u) << where;
        ASSERT_EQ(guarded->broken_guards(), 0u) << where;
        ASSERT_TRUE(returns_to(before)) << where;
        most_live = std::max(most_live, live_allocations());
        ASSERT_LE(most_live, live + kOwnAllocations) << where;
        if (n % 16 == 1 || !met) expect_good_run(where);
        if (!met) break;
      }
    }
    std::cout << "sweep, " << GetParam().name << ", " << kind << ": " << injected << " failures injected in " << runs
              << " runs of " << scenarios().size() << " scenarios, 0 hangs, 0 stale bytes; after each run: buffers 0 "
              << "bytes, broken guards 0, descriptors " << before.descriptors << ", threads " << before.threads
              << "; allocations alive " << live << " before, at most " << most_live << " after a run\n";
  }

  // A thread that was joined may be counted by the system a moment longer.
  static bool returns_to(const Footprint& before) {
    return eventually([&] {
      const Footprint now = footprint();
      return now.descriptors <= before.descriptors && now.threads <= before.threads;
    });
  }

  void expect_good_run(const std::string& after) const {
    Outcome outcome;
    scenarios()[2].run(world_with(arrays_, std::make_shared<PageAlloc>()), outcome);
    ASSERT_EQ(outcome.wrong, "") << "a new pipeline after " << after;
    ASSERT_EQ(outcome.delivered, 12) << "a new pipeline after " << after;
  }

  const std::shared_ptr<MemoryStore> arrays_ = make_arrays();
};

TEST_P(FailureSweep, scenarios_are_good_without_failures) {
  for (const Scenario& scenario : scenarios()) {
    Outcome outcome;
    scenario.run(world_with(arrays_, std::make_shared<GuardedAlloc>()), outcome);
    EXPECT_EQ(outcome.wrong, "") << scenario.name;
    EXPECT_EQ(outcome.refused, scenario.name.starts_with("a refused") || scenario.name.starts_with("an array"))
        << scenario.name;
  }
}

TEST_P(FailureSweep, an_allocation_fails) {
  sweep("allocation", stride(19), [&](const Scenario& scenario, std::uint64_t n, const auto& guarded, Outcome& out) {
    const World world = world_with(arrays_, guarded);
    fail_allocation(n);
    scenario.run(world, out);
    end_failing();
    return allocation_failed();
  });
}

TEST_P(FailureSweep, a_buffer_cannot_be_had) {
  if (GetParam().device) GTEST_SKIP() << "a device has its own memory";
  for (const bool for_ever : {false, true})
    sweep(for_ever ? "buffer, permanently" : "buffer", 1,
          [&](const Scenario& scenario, std::uint64_t n, const auto& guarded, Outcome& out) {
            const auto failing = std::make_shared<FailingAlloc>(guarded, n, for_ever);
            scenario.run(world_with(arrays_, failing), out);
            return failing->takes() >= n;
          });
}

TEST_P(FailureSweep, a_call_of_the_store_fails) {
  for (const Fault::Kind kind : {Fault::Kind::error, Fault::Kind::short_read, Fault::Kind::changed})
    for (const Fault::Call call : {Fault::Call::open, Fault::Call::stamp, Fault::Call::read})
      for (const bool for_ever : {false, true}) {
        // Nothing detects bytes that change without the stamp: the arrays here have no checksums of data.
        if (kind == Fault::Kind::changed && call == Fault::Call::read) continue;
        if (kind == Fault::Kind::short_read && call != Fault::Call::read) continue;
        const std::string name = formatted("{}{}", name_of(call, kind), for_ever ? ", permanently" : "");
        sweep(name, stride(7), [&](const Scenario& scenario, std::uint64_t n, const auto& guarded, Outcome& out) {
          Fault fault;
          fault.call = call;
          fault.kind = kind;
          fault.at = n;
          fault.for_ever = for_ever;
          const auto faulty = std::make_shared<FaultyStore>(arrays_, fault);
          scenario.run(world_with(faulty, guarded), out);
          return faulty->faults() > 0;
        });
      }
}

TEST_P(FailureSweep, a_thread_cannot_be_started) {
  for (const bool for_ever : {false, true})
    sweep(for_ever ? "thread, permanently" : "thread", 1,
          [&](const Scenario& scenario, std::uint64_t n, const auto& guarded, Outcome& out) {
            const World world = world_with(arrays_, guarded);
            fail_thread_start(n, for_ever);
            scenario.run(world, out);
            const bool met = thread_start_failed();
            fail_thread_start(0, false);
            return met;
          });
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which start threads their own way
TEST(ThreadsThatDoNotStart, are_reported_by_their_number) {
  fail_thread_start(3, false);
  const Error error = error_of([] { make_thread_engine(8); });
  fail_thread_start(0, false);
  EXPECT_NE(error.message().find("thread 3 of 8"), std::string::npos) << error.what();
}
#endif

INSTANTIATE_TEST_SUITE_P(Engines, FailureSweep, ::testing::ValuesIn(tested_engines()), kEngineName);

}  // namespace
}  // namespace damacy::testing
