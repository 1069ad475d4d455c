// Jobs that want the same chunks share a decode, in an open wave and in one that is on its way through the device.
#include "damacy/wave/shared_decode.h"

#include <latch>

#include <gtest/gtest.h>

#include "support/wave_runs.h"

namespace damacy {
namespace {

using testing::blosc_chain;
using testing::blosc_chunk;
using testing::FakeChunk;
using testing::FakeChunks;
using testing::WaveRuns;
using Decode = WantedChunks::Decode;
using Kind = HostOrder::Kind;
using Chunks = std::shared_ptr<FakeChunks>;

constexpr std::size_t kBytes = 20'000;
constexpr std::uint32_t kBlock = 2048;

class SharedDecodesOn : public ::testing::TestWithParam<HostOrder> {
 protected:
  // A job that wants three chunks, whose ids and bytes are those of every other such job. `needs`: of the first.
  Chunks want(std::vector<ByteRange> needs = {{0, kBytes}}) const {
    return runs.want({blosc_chunk(kBytes, std::move(needs), kBlock, 1), blosc_chunk(kBytes, {{7, 9}}, kBlock, 2),
                      blosc_chunk(kBytes, {{100, kBytes}}, kBlock, 3)},
                     blosc_chain(), 5000);
  }
  void add(const Chunks& chunks, bool seal = true) { runs.add({chunks}, {.seal = seal, .share_decodes = true}); }
  void expect_placed(const Chunks& chunks) const {
    const auto memory = runs.bytes_of(*chunks);
    for (std::uint32_t c = 0; c < chunks->wants().chunks.size(); ++c) {
      EXPECT_TRUE(chunks->is_placed(c, memory));
      EXPECT_TRUE(chunks->failures_of(c).empty());
    }
    EXPECT_TRUE(chunks->is_settled());
  }
  static std::ptrdiff_t count(const Chunks& chunks, Decode how) { return std::ranges::count(chunks->decodes(), how); }
  static void expect_shared(const Chunks& chunks) {
    EXPECT_EQ(chunks->decodes(), std::vector<Decode>(3, Decode::joined));
    EXPECT_TRUE(chunks->object().reads().empty());
    EXPECT_EQ(chunks->decoded(), 0);
  }

  WaveRuns runs{GetParam(), 3};
};

TEST_P(SharedDecodesOn, a_chunk_of_the_open_wave_is_decoded_once_for_all_jobs) {
  std::vector<Chunks> jobs;
  for (int j = 0; j < 4; ++j) add(jobs.emplace_back(want()), /*seal=*/false);
  runs.finish();
  EXPECT_EQ(runs.former.sealed(), 1u);
  for (const Chunks& job : jobs) expect_placed(job);
  EXPECT_EQ(count(jobs[0], Decode::on_device), 3);
  EXPECT_EQ(jobs[0]->decoded(), 3);
  for (const Chunks& job : std::span(jobs).subspan(1)) expect_shared(job);
}

TEST_P(SharedDecodesOn, a_chunk_of_a_wave_that_waits_for_its_destination_is_decoded_once) {
  std::latch added(1);
  const Chunks first = want(), second = want(), third = want();
  first->to().during_claim = [&] { added.wait(); };
  add(first);
  add(second);
  add(third);
  added.count_down();
  runs.finish();
  EXPECT_EQ(runs.former.sealed(), 3u);
  for (const Chunks& job : {first, second, third}) expect_placed(job);
  expect_shared(second);
  expect_shared(third);
}

TEST_P(SharedDecodesOn, jobs_that_follow_each_other_are_right_whether_they_share_or_not) {
  std::vector<Chunks> jobs;
  for (int j = 0; j < 30; ++j) add(jobs.emplace_back(want()), j % 3 != 1);
  runs.finish();
  std::ptrdiff_t decoded = 0;
  for (const Chunks& job : jobs) {
    expect_placed(job);
    decoded += count(job, Decode::on_device);
    EXPECT_EQ(count(job, Decode::on_device) + count(job, Decode::joined), 3);
    EXPECT_EQ(job->decoded(), count(job, Decode::on_device));
  }
  EXPECT_LE(decoded, 60);  // of 20 waves
}

// A change of its object would not show.
TEST_P(SharedDecodesOn, a_chunk_without_a_version_is_decoded_for_each_job) {
  const auto unversioned = [&] {
    return FakeChunks::make({blosc_chunk(kBytes, {{0, kBytes}}, kBlock, 1)},
                            {.codecs = blosc_chain(), .alloc = runs.device->device_memory(), .is_versioned = false});
  };
  const Chunks first = unversioned(), second = unversioned();
  add(first, /*seal=*/false);
  add(second);
  runs.finish();
  for (const Chunks& job : {first, second}) {
    EXPECT_TRUE(job->is_placed(0, runs.bytes_of(*job)));
    EXPECT_EQ(job->decodes(), std::vector<Decode>{Decode::on_device});
  }
}

TEST_P(SharedDecodesOn, what_is_joined_counts_among_what_a_device_finishes_sooner) {
  for (const bool has_enough : {true, false}) {
    WaveRuns own{GetParam(), 3};
    const auto both = [&](bool but_last) {
      FakeChunk last = blosc_chunk(kBytes, {{0, kBytes}}, kBlock, 2);
      last.failed = but_last;
      return own.want({blosc_chunk(kBytes, {{0, kBytes}}, kBlock, 1), last}, blosc_chain(), 5000);
    };
    const Chunks first = both(true), second = both(false);
    own.add({first}, {.seal = false, .share_decodes = true});
    own.add({second}, {.device_from_bytes = 2 * kBytes + (has_enough ? 0 : 1), .share_decodes = true});
    own.finish();
    const auto memory = own.bytes_of(*second);
    for (std::uint32_t c = 0; c < 2; ++c) EXPECT_TRUE(second->is_placed(c, memory));
    EXPECT_EQ(count(second, Decode::joined), 1);
    EXPECT_EQ(count(second, has_enough ? Decode::on_device : Decode::on_host), 1);
  }
}

TEST_P(SharedDecodesOn, who_needs_more_than_is_decoded_decodes_anew) {
  std::latch described(1), added(1);
  const Chunks first = want({{10, 20}}), covered = want({{0, kBlock}}), more = want({{kBlock, kBlock + 1}});
  first->to().during_claim = [&] {
    described.count_down();
    added.wait();
  };
  add(first);
  described.wait();
  add(covered);
  add(more);
  added.count_down();
  runs.finish();
  for (const Chunks& job : {first, covered, more}) expect_placed(job);
  expect_shared(covered);
  EXPECT_EQ(count(more, Decode::joined), 2);
  EXPECT_EQ(count(more, Decode::on_device), 1);
}

TEST_P(SharedDecodesOn, what_those_need_who_join_before_the_frames_are_known_is_decoded_too) {
  std::latch added(1);
  const Chunks first = want({{10, 20}}), second = want({{kBlock, 5 * kBlock}});
  first->object().during_read = [&] { added.wait(); };
  add(first);
  add(second);
  added.count_down();
  runs.finish();
  for (const Chunks& job : {first, second}) expect_placed(job);
  expect_shared(second);
}

TEST_P(SharedDecodesOn, a_chunk_that_cannot_be_read_fails_all_jobs_that_share_it) {
  std::latch added(1);
  const Chunks first = want(), second = want(), after = want();
  first->object().during_read = [&] { added.wait(); };
  first->object().damaged = {{first->where(0).offset, first->where(0).offset + 1}};
  add(first);
  add(second);
  added.count_down();
  for (const Chunks& job : {first, second}) ASSERT_TRUE(testing::eventually([&] { return job->is_settled(); }));
  add(after);
  runs.finish();
  for (const Chunks& job : {first, second}) {
    ASSERT_EQ(job->failures_of(0).size(), 1u);
    EXPECT_EQ(job->failures_of(0)[0].status(), Status::io);
    EXPECT_TRUE(job->is_untouched(0));
    EXPECT_TRUE(job->is_placed(2, runs.bytes_of(*job)));
  }
  expect_placed(after);
}

// The first job's destination has no memory: those that share its decodes fail with it, and later ones do not.
TEST_P(SharedDecodesOn, a_job_without_memory_fails_those_that_share_its_decodes) {
  std::latch added(1);
  const Chunks first = want(), second = want();
  first->to().during_claim = [&] {
    added.wait();
    throw Error(Status::shutdown, "the pipeline was closed", "closed");
  };
  add(first);
  add(second);
  added.count_down();
  runs.finish();
  for (const Chunks& job : {first, second})
    for (std::uint32_t c = 0; c < 3; ++c) EXPECT_EQ(job->failures_of(c).size(), 1u);
  EXPECT_TRUE(second->is_settled());
}

// Blocks of two bytes: no device decodes them. The host decodes what each job needs.
TEST_P(SharedDecodesOn, what_the_host_decodes_after_all_is_right_for_all_jobs) {
  std::latch added(1);
  const auto refused = [&](ByteRange needs) { return runs.want({blosc_chunk(500, {needs}, 2, 1)}, blosc_chain()); };
  const Chunks first = refused({10, 12}), second = refused({400, 500}), third = refused({0, 200});
  first->object().during_read = [&] { added.wait(); };
  add(first, /*seal=*/false);
  add(second);
  add(third);
  added.count_down();
  runs.finish();
  for (const Chunks& job : {first, second, third}) expect_placed(job);
  for (const Chunks& job : {first, second, third}) EXPECT_EQ(count(job, Decode::on_host), 1);
  EXPECT_EQ(first->object().reads().size() + second->object().reads().size() + third->object().reads().size(), 1u);
}

// As its status words say, the device could not decode some blocks. Jobs that need none of them do not fail.
TEST_P(SharedDecodesOn, a_chunk_that_does_not_decode_fails_the_jobs_that_need_those_bytes) {
  for (const bool is_last : {false, true}) {
    WaveRuns own{GetParam(), 3};
    std::latch added(1);
    const auto damaged = [&](ByteRange needs) {
      FakeChunk chunk = blosc_chunk(kBytes, {needs}, kBlock, 1);
      std::fill(chunk.stored.end() - 1000, chunk.stored.end() - 100, std::byte{0xff});  // the last block
      return own.want({chunk}, blosc_chain());
    };
    const Chunks right = damaged({0, kBlock}), wrong = damaged({kBytes - 10, kBytes});
    const Chunks &first = is_last ? right : wrong, &second = is_last ? wrong : right;
    first->object().during_read = [&] { added.wait(); };
    for (const Chunks& job : {first, second}) own.add({job}, {.share_decodes = true});
    added.count_down();
    own.finish();
    EXPECT_TRUE(right->is_placed(0, own.bytes_of(*right)));
    EXPECT_TRUE(right->failures_of(0).empty());
    ASSERT_EQ(wrong->failures_of(0).size(), 1u);
    EXPECT_EQ(wrong->failures_of(0)[0].status(), Status::decode);
    for (const Chunks& job : {first, second}) EXPECT_TRUE(job->is_settled());
  }
}

// A job compares the stamps of an object after the last read for it.
TEST_P(SharedDecodesOn, a_read_is_open_for_all_jobs_that_share_it) {
  std::latch added(1);
  const Chunks first = want(), second = want();
  first->object().during_read = [&] { added.wait(); };
  add(first);
  add(second);
  EXPECT_EQ(second->open_reads(), 3);
  added.count_down();
  runs.finish();
  EXPECT_EQ(second->open_reads(), 0);
  EXPECT_EQ(second->ended_elsewhere(), 3);
}

// Of three waves each may hold one other: what is in a second one is decoded anew.
TEST_P(SharedDecodesOn, a_wave_holds_few_others) {
  std::latch added(1);
  const auto only = [&](std::uint32_t number) {
    std::vector<FakeChunk> chunks;
    for (std::uint32_t c = 0; c < 3; ++c) {
      chunks.push_back(blosc_chunk(kBytes, {{0, 9}}, kBlock, c));
      chunks.back().failed = number < 2 && c != number;
    }
    return runs.want(std::move(chunks), blosc_chain(), 5000);
  };
  const Chunks first = only(0), second = only(1), both = only(2);
  first->to().during_claim = [&] { added.wait(); };
  for (const Chunks& job : {first, second, both}) add(job);
  added.count_down();
  runs.finish();
  const auto memory = runs.bytes_of(*both);
  for (std::uint32_t c = 0; c < 3; ++c) EXPECT_TRUE(both->is_placed(c, memory));
  EXPECT_EQ(count(both, Decode::joined), 1);
  EXPECT_EQ(count(both, Decode::on_device), 2);
}

// No image holds its placements: they are made by another stream, which waits for the wave that decodes the chunk.
TEST_P(SharedDecodesOn, a_job_of_very_many_parts_waits_for_the_decode) {
  std::latch added(1);
  constexpr std::size_t kMany = 30'000;
  std::vector<ByteRange> parts;
  for (std::size_t at = 0; at < kMany; ++at) parts.push_back({2 * at, 2 * at + 1});
  const auto whole = [&](std::vector<ByteRange> needs) {
    return runs.want({blosc_chunk(2 * kMany, std::move(needs), kBlock, 1)}, blosc_chain());
  };
  const Chunks first = whole({{0, 2 * kMany}}), second = whole(parts);
  first->object().during_read = [&] { added.wait(); };
  add(first);
  add(second);
  added.count_down();
  runs.finish();
  EXPECT_EQ(count(second, Decode::joined), 1);
  EXPECT_TRUE(second->is_placed(0, runs.bytes_of(*second)));
}

INSTANTIATE_TEST_SUITE_P(Orders, SharedDecodesOn,
                         ::testing::Values(HostOrder{Kind::eager}, HostOrder{Kind::lazy},
                                           HostOrder{.kind = Kind::random, .seed = 1},
                                           HostOrder{.kind = Kind::random, .seed = 2}));

}  // namespace
}  // namespace damacy
