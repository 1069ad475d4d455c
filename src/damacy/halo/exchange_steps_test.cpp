#include "damacy/halo/exchange_steps.h"

#include <gtest/gtest.h>

#include <vector>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "support/error_of.h"

namespace damacy::halo {
namespace {

// Writes down its steps, as "pack 0.1" for phase 1 in slot 0. The step `fails` throws once.
struct Recorder final : ExchangeWork {
  void post_receives(int slot, int phase) override { note("post", slot, phase); }
  void pack(int slot, int phase) override { note("pack", slot, phase); }
  void send(int slot, int phase) override { note("send", slot, phase); }
  void receive(int slot, int phase) override { note("receive", slot, phase); }
  void unpack(int slot, int phase) override { note("unpack", slot, phase); }
  void end_messages(int slot, int phase) override { note("end", slot, phase); }

  void note(const char* step, int slot, int phase) {
    seen.push_back(formatted("{} {}.{}", step, slot, phase));
    if (seen.back() != fails) return;
    fails.clear();
    throw Error(Status::io, "the network is down");
  }

  std::vector<std::string> seen;
  std::string fails;
};

using Seen = std::vector<std::string>;

TEST(ExchangeSteps, later_phases_begin_when_the_phase_before_is_unpacked) {
  ExchangeSteps steps(2, /*phases=*/2, /*talks=*/true);
  Recorder work;
  auto started = steps.start(steps.next(), work);
  EXPECT_EQ(work.seen, (Seen{"post 0.0", "pack 0.0", "send 0.0"}));
  work.seen.clear();
  steps.finish(&started, work);
  EXPECT_EQ(work.seen, (Seen{"receive 0.0", "unpack 0.0", "end 0.0", "post 0.1", "pack 0.1", "send 0.1", "receive 0.1",
                             "unpack 0.1", "end 0.1"}));
}

TEST(ExchangeSteps, a_rank_without_peers_only_packs_and_unpacks) {
  ExchangeSteps steps(1, 1, /*talks=*/false);
  Recorder work;
  auto started = steps.start(steps.next(), work);
  steps.finish(&started, work);
  EXPECT_EQ(work.seen, (Seen{"pack 0.0", "unpack 0.0"}));
}

TEST(ExchangeSteps, an_exchange_that_fails_before_it_sends_is_retried_in_its_slot) {
  for (const char* step : {"post 0.0", "pack 0.0"}) {
    ExchangeSteps steps(2, 1, true);
    Recorder work;
    for (int tries = 0; tries < 3; ++tries) {
      work.fails = step;
      EXPECT_EQ(error_of([&] { (void)steps.start(steps.next(), work); }).message(), "the network is down");
    }
    EXPECT_EQ(steps.next(), 0);
    auto started = steps.start(steps.next(), work);
    EXPECT_EQ(steps.next(), 1);
    steps.finish(&started, work);
  }
}

TEST(ExchangeSteps, calls_are_refused_after_an_exchange_failed_when_peers_have_its_messages) {
  for (const char* step : {"send 0.0", "receive 0.0", "unpack 0.0", "end 0.0", "pack 0.1"}) {
    ExchangeSteps steps(2, 2, true);
    Recorder work;
    work.fails = step;
    EXPECT_THROW(
        {
          auto started = steps.start(steps.next(), work);
          steps.finish(&started, work);
        },
        Error);
    const std::string refusal = error_of([&] { (void)steps.next(); }).message();
    EXPECT_NE(refusal.find("failed half way (the network is down"), std::string::npos) << step << ": " << refusal;
    EXPECT_EQ(error_of([&] { steps.check(); }).message(), refusal);
  }
}

TEST(ExchangeSteps, exchanges_of_several_phases_are_finished_in_the_order_of_their_starts) {
  for (const auto& [phases, talks] : {std::pair{1, true}, std::pair{2, false}, std::pair{2, true}}) {
    ExchangeSteps steps(2, phases, talks);
    Recorder work;
    auto first = steps.start(steps.next(), work), second = steps.start(steps.next(), work);
    const Seen before = work.seen;
    if (phases == 2 && talks) {
      EXPECT_EQ(error_of([&] { steps.finish(&second, work); }).message(),
                "finish: an exchange that was started before is not finished. Exchanges of 2 phases, as those with "
                "sequential corners, must be finished in the order of their starts");
      EXPECT_EQ(work.seen, before);
      steps.finish(&first, work);
      steps.finish(&second, work);
    } else {
      steps.finish(&second, work);
      steps.finish(&first, work);
    }
    steps.check();
  }
}

TEST(ExchangeSteps, tokens_are_finished_once_and_by_their_exchanger) {
  ExchangeSteps steps(1, 1, true), other(1, 1, true);
  Recorder work;
  auto started = steps.start(steps.next(), work);
  EXPECT_EQ(error_of([&] { other.finish(&started, work); }).message(), "finish: another exchanger's token");
  EXPECT_EQ(error_of([&] { steps.finish(nullptr, work); }).message(), "finish: another exchanger's token");
  steps.finish(&started, work);
  EXPECT_EQ(error_of([&] { steps.finish(&started, work); }).message(), "finish: this token was finished already");
}

}  // namespace
}  // namespace damacy::halo
