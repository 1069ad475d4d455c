// The order in which waves go through a device, what a share waits for, and what a failure leaves to the others.
#include "damacy/wave/wave_runner.h"

#include <gtest/gtest.h>

#include "damacy/wave/stage_chunk.h"
#include "support/eventually.h"
#include "support/wave_runs.h"

namespace damacy {
namespace {

using testing::FakeChunks;
using testing::FakeDestination;
using testing::raw_chunk;
using testing::WaveRuns;
using Kind = HostOrder::Kind;
using Chunks = std::shared_ptr<FakeChunks>;

constexpr std::size_t kBytes = 5000;

class WaveRunnerOn : public ::testing::TestWithParam<HostOrder> {
 protected:
  WaveRuns runs{GetParam(), 3};

  Chunks want(unsigned seed) const { return runs.want({raw_chunk(kBytes, {{0, kBytes}}, seed)}); }
  // A wave that has these chunks, raw, as readers stage them. `late`: the last stays to be written.
  std::shared_ptr<Wave> wave_of(const std::vector<Chunks>& all, std::optional<StagedRange>* late = nullptr) {
    const auto wave = runs.new_wave();
    for (const Chunks& chunks : all) {
      wave->reserve(Wave::padded(kBytes), ~std::uint64_t{0}, {});
      StagedRange range = wave->stage(kBytes);
      StagedChunk& staged = wave->add(chunks, 0);
      staged.staged_at = range.begin();
      staged.staged_bytes = kBytes;
      std::ranges::copy(chunks->chunk(0).stored, range.memory().begin());
      ChunkLayout layout;
      layout.chunk_bytes = kBytes;
      add_placements(staged.share->placements, staged, WantedChunks::From::chunk, wave->source_address(range.begin()),
                     layout);
      if (late != nullptr && chunks == all.back()) late->emplace(std::move(range));
    }
    return wave;
  }
  void expect_placed(const Chunks& chunks) {
    EXPECT_TRUE(chunks->is_placed(0, runs.bytes_of(*chunks)));
    EXPECT_TRUE(chunks->failures_of(0).empty());
    EXPECT_TRUE(chunks->is_settled());
  }
};

TEST_P(WaveRunnerOn, waves_are_placed_in_the_order_of_their_numbers_though_a_later_one_is_written_first) {
  std::vector<int> order;
  const Chunks first = want(1), second = want(2), third = want(3);
  first->to().during_claim = [&] { order.push_back(1); };
  second->to().during_claim = [&] { order.push_back(2); };
  third->to().during_claim = [&] { order.push_back(3); };
  std::optional<StagedRange> late;
  wave_of({first}, &late)->seal(0);
  wave_of({second})->seal(1);
  wave_of({third})->seal(2);
  EXPECT_EQ(runs.runner.retired(), 0u);
  late.reset();
  runs.runner.finish();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  for (const Chunks& chunks : {first, second, third}) expect_placed(chunks);
  EXPECT_EQ(runs.runner.retired(), 3u);
}

TEST_P(WaveRunnerOn, a_wave_is_not_placed_before_all_of_it_is_written) {
  const Chunks first = want(1), second = want(2);
  std::optional<StagedRange> late;
  wave_of({first, second}, &late)->seal(0);
  EXPECT_EQ(first->to().claims, 0);
  std::ranges::copy(second->chunk(0).stored, late->memory().begin());
  late.reset();
  runs.runner.finish();
  expect_placed(first);
  expect_placed(second);
}

// What consumers have enqueued on the memory of the batch before.
TEST_P(WaveRunnerOn, a_share_is_written_after_the_events_of_its_claim) {
  const Chunks first = want(1);
  const auto consumer = runs.device->make_stream();
  const HostBuffer seen(runs.device->pinned_memory(), kBytes);
  const auto second = FakeChunks::make({raw_chunk(kBytes, {{0, kBytes}}, 2)},
                                       {.to = std::shared_ptr<FakeDestination>(first, &first->to()), .first_part = 1});
  first->to().during_claim = [&] {
    if (first->to().claims == 1) return;
    consumer->copy(seen.bytes(), first->to().memory());
    first->to().before = {consumer->record()};
  };
  wave_of({first})->seal(0);
  ASSERT_TRUE(testing::eventually([&] { return first->is_settled(); }));
  wave_of({second})->seal(1);
  runs.runner.finish();
  first->to().before.front().wait();
  EXPECT_TRUE(std::ranges::equal(seen.bytes(), first->chunk(0).decoded));
  EXPECT_TRUE(second->is_placed(0, runs.bytes_of(*second)));
}

TEST_P(WaveRunnerOn, a_share_without_memory_fails_alone) {
  const Chunks first = want(1), second = want(2), third = want(3);
  second->to().during_claim = [] { throw Error(Status::shutdown, "the pipeline was closed", "closed"); };
  wave_of({first, second, third})->seal(0);
  runs.runner.finish();
  expect_placed(first);
  expect_placed(third);
  ASSERT_EQ(second->failures_of(0).size(), 1u);
  EXPECT_EQ(second->failures_of(0)[0].status(), Status::shutdown);
  EXPECT_TRUE(second->is_untouched(0));
  EXPECT_TRUE(second->is_settled());
}

TEST_P(WaveRunnerOn, memory_of_a_retired_wave_is_lent_again) {
  for (std::uint64_t number = 0; number < 9; ++number) {  // of three slots
    const Chunks chunks = want(static_cast<unsigned>(number));
    wave_of({chunks})->seal(number);
    ASSERT_TRUE(testing::eventually([&] { return chunks->is_settled(); }));
    expect_placed(chunks);
  }
  EXPECT_TRUE(testing::eventually([&] { return runs.staging.lendable() == runs.staging.size(); }));
  EXPECT_EQ(runs.scratch.lendable(), runs.scratch.size());
}

TEST_P(WaveRunnerOn, a_chunk_that_failed_before_is_neither_placed_nor_counted) {
  const Chunks good = want(1), bad = want(2);
  const auto wave = wave_of({good, bad});
  wave->chunks()[1].failed = true;
  wave->seal(0);
  runs.runner.finish();
  expect_placed(good);
  EXPECT_TRUE(bad->is_untouched(0));
  EXPECT_TRUE(bad->decodes().empty());
  EXPECT_TRUE(bad->is_settled());
}

TEST_P(WaveRunnerOn, a_copy_of_a_reader_is_complete_on_return) {
  const HostBuffer there(runs.device->device_memory(), kBytes);
  const HostBuffer here(runs.device->pinned_memory(), kBytes);
  std::ranges::fill(here.bytes(), std::byte{0x5c});
  runs.runner.copy_now(there.bytes(), here.bytes());
  std::ranges::fill(here.bytes(), std::byte{0});
  const auto bytes = runs.bytes_of(there.bytes());
  EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0x5c}; }));
}

TEST_P(WaveRunnerOn, a_finish_ends_what_was_submitted_and_may_be_repeated) {
  std::vector<Chunks> jobs;
  for (std::uint64_t number = 0; number < 3; ++number) {
    jobs.push_back(want(static_cast<unsigned>(number)));
    wave_of({jobs.back()})->seal(number);
  }
  runs.runner.finish();
  runs.runner.finish();
  for (const Chunks& chunks : jobs) expect_placed(chunks);
}

INSTANTIATE_TEST_SUITE_P(Orders, WaveRunnerOn,
                         ::testing::Values(HostOrder{Kind::eager}, HostOrder{Kind::lazy},
                                           HostOrder{.kind = Kind::random, .seed = 7},
                                           HostOrder{.kind = Kind::random, .seed = 8}));

}  // namespace
}  // namespace damacy
