// Which waves chunks go into, who decodes them, and that all are placed whatever order the device works in.
#include "damacy/wave/wave_former.h"

#include <random>

#include <gtest/gtest.h>

#include "damacy/cache/chunk_cache.h"
#include "support/blosc_chunks.h"
#include "support/error_of.h"
#include "support/eventually.h"
#include "support/wave_runs.h"

namespace damacy {
namespace {

using testing::blosc_chain;
using testing::blosc_chunk;
using testing::FakeChunk;
using testing::FakeChunks;
using testing::raw_chunk;
using testing::WaveRuns;
using Decode = WantedChunks::Decode;
using Kind = HostOrder::Kind;
using Chunks = std::shared_ptr<FakeChunks>;

constexpr std::size_t kBytes = 20'000;

std::vector<FakeChunk> packed_chunks(std::size_t count, std::size_t bytes = kBytes) {
  std::vector<FakeChunk> chunks;
  for (unsigned c = 0; c < count; ++c)
    chunks.push_back(blosc_chunk(bytes, {{c, 100 + c}, {bytes / 2, bytes}}, 2048, c + 1));
  return chunks;
}

void expect_placed(const WaveRuns& runs, const Chunks& chunks) {
  const auto memory = runs.bytes_of(*chunks);
  for (std::uint32_t c = 0; c < chunks->wants().chunks.size(); ++c) {
    EXPECT_TRUE(chunks->is_placed(c, memory));
    EXPECT_TRUE(chunks->failures_of(c).empty());
  }
  EXPECT_TRUE(chunks->is_settled());
}

class WaveFormerOn : public ::testing::TestWithParam<HostOrder> {};

TEST_P(WaveFormerOn, chunks_of_many_jobs_are_placed) {
  WaveRuns runs(GetParam());
  std::vector<Chunks> jobs;
  for (std::size_t j = 0; j < 12; ++j) {
    jobs.push_back(j % 3 == 0 ? runs.want({raw_chunk(kBytes, {{0, kBytes}}, 40), raw_chunk(kBytes, {{5, 6}}, 41)})
                              : runs.want(packed_chunks(1 + j % 4), blosc_chain()));
    runs.add({jobs.back()}, {.seal = j % 2 == 1});
  }
  runs.finish();
  for (const Chunks& job : jobs) expect_placed(runs, job);
}

TEST_P(WaveFormerOn, what_needs_several_waves_is_placed_out_of_two_that_are_used_again) {
  WaveRuns runs(GetParam());
  const auto chunks = runs.want(packed_chunks(60), blosc_chain(), 5000);  // 1.2 MB decoded: of 512 KiB each
  runs.add({chunks});
  runs.finish();
  expect_placed(runs, chunks);
  EXPECT_GE(runs.former.sealed(), 3u);
  EXPECT_EQ(runs.runner.retired(), runs.former.sealed());
}

// Another process may have larger waves. What is kept behind such a chunk is in a wave of its own.
TEST_P(WaveFormerOn, a_kept_chunk_that_no_wave_holds_is_read) {
  constexpr std::size_t kLarge = 300'000;
  WaveRuns runs(GetParam(), 3);
  ChunkCache cache(cache_sizes_with_notes(64 << 20, 0), runs.device->pinned_memory());
  const auto want = [&](bool but_second) {
    std::vector<FakeChunk> chunks = packed_chunks(3, kLarge);
    std::mt19937 random{7};
    for (std::byte& byte : chunks[1].decoded) byte = static_cast<std::byte>(random());
    chunks[1].stored = testing::blosc_packed(chunks[1].decoded, {.typesize = 2, .blocksize = 2048, .filter_flags = 1});
    chunks[1].failed = but_second;
    return runs.want(std::move(chunks), blosc_chain());
  };
  const auto cached = [&](const Chunks& chunks) {
    return std::make_shared<CachedChunks>(*chunks, &cache, CachedChunks::Form::described_on_host);
  };
  const Chunks first = want(true), second = want(false);
  runs.add({first}, {.caches = {nullptr, cached(first)}});
  ASSERT_TRUE(testing::eventually([&] { return first->is_settled(); }));
  {
    ChunkTier::Filling filling = CachedChunks(*second, &cache, CachedChunks::Form::described_on_host)
                                     .reserve(1, second->where(1).bytes, /*note_bytes=*/8);
    ASSERT_TRUE(filling);
    std::ranges::copy(second->chunk(1).stored, filling.bytes().begin());
    const auto published = filling.publish();
  }
  ASSERT_GT(second->where(1).bytes, WaveRuns::kSlab);
  runs.add({second}, {.caches = {nullptr, cached(second)}});
  runs.finish();
  expect_placed(runs, second);
  EXPECT_EQ(cache.counts().hits.chunks, 3);
  EXPECT_EQ(second->decodes(), (std::vector<Decode>{Decode::on_device, Decode::on_host, Decode::on_device}));
}

TEST_P(WaveFormerOn, chunks_that_readers_decode_are_placed) {
  WaveRuns runs(GetParam());
  const auto packed = runs.want(packed_chunks(6), blosc_chain());
  runs.add({packed}, {.device_from_bytes = ~std::uint64_t{0}});
  runs.finish();
  expect_placed(runs, packed);
  EXPECT_EQ(packed->decodes(), std::vector<Decode>(6, Decode::on_host));
}

INSTANTIATE_TEST_SUITE_P(Orders, WaveFormerOn,
                         ::testing::Values(HostOrder{Kind::eager}, HostOrder{Kind::lazy},
                                           HostOrder{.kind = Kind::random, .seed = 1},
                                           HostOrder{.kind = Kind::random, .seed = 2},
                                           HostOrder{.kind = Kind::random, .seed = 3}));

TEST(WaveFormer, a_device_decodes_from_a_size_on) {
  for (const bool on_device : {true, false}) {
    WaveRuns runs;
    const auto chunks = runs.want(packed_chunks(2), blosc_chain());
    runs.add({chunks}, {.device_from_bytes = 2 * kBytes + (on_device ? 0 : 1)});
    runs.finish();
    EXPECT_EQ(chunks->decodes(), std::vector<Decode>(2, on_device ? Decode::on_device : Decode::on_host));
  }
}

// Crops of chunks that shrink a lot are larger than what is stored: the bus would carry more.
TEST(WaveFormer, a_device_decodes_fewer_bytes_too_where_crops_are_larger_than_what_is_stored) {
  for (const std::uint64_t needed : {std::uint64_t{100}, std::uint64_t{kBytes}}) {
    WaveRuns runs;
    FakeChunk chunk = blosc_chunk(kBytes, {{0, needed}}, 2048);
    ASSERT_LT(chunk.stored.size(), kBytes - Wave::kAlignment);
    const auto chunks = runs.want({chunk}, blosc_chain());
    runs.add({chunks}, {.device_from_bytes = ~std::uint64_t{0}, .never_more_than_stored = true});
    runs.finish();
    EXPECT_EQ(chunks->decodes(), std::vector<Decode>{needed == kBytes ? Decode::on_device : Decode::on_host});
    expect_placed(runs, chunks);
  }
}

TEST(WaveFormer, a_codec_that_no_device_has_is_decoded_by_readers) {
  WaveRuns runs;
  FakeChunk chunk = raw_chunk(kBytes, {{9, 10}});
  const auto chunks = runs.want({chunk}, CodecChain({{.id = CodecId::shuffle, .name = "shuffle", .shuffle_width = 1}}));
  runs.add({chunks});
  runs.finish();
  EXPECT_EQ(chunks->decodes(), std::vector<Decode>{Decode::on_host});
  expect_placed(runs, chunks);
}

TEST(WaveFormer, small_jobs_share_a_wave_until_it_is_sealed) {
  WaveRuns runs;
  const auto first = runs.want(packed_chunks(2), blosc_chain());
  const auto second = runs.want(packed_chunks(2), blosc_chain());
  runs.add({first}, {.seal = false});
  runs.add({second}, {.seal = false});
  EXPECT_EQ(runs.former.sealed(), 0u);
  EXPECT_FALSE(first->is_settled());
  runs.former.seal();
  EXPECT_EQ(runs.former.sealed(), 1u);
  runs.finish();
  expect_placed(runs, first);
  expect_placed(runs, second);
}

TEST(WaveFormer, an_empty_wave_is_not_sealed) {
  WaveRuns runs;
  runs.former.seal();
  FakeChunk failed = raw_chunk(kBytes, {{0, 1}});
  failed.failed = true;
  runs.add({runs.want({failed})});
  EXPECT_EQ(runs.former.sealed(), 0u);
}

TEST(WaveFormer, missing_chunks_are_filled_in_their_wave_and_failed_ones_are_left_out) {
  WaveRuns runs({.kind = Kind::lazy});
  std::vector<FakeChunk> stored = packed_chunks(3);
  stored[0].missing = true;
  stored[1].failed = true;
  const auto chunks = runs.want(stored, blosc_chain());
  runs.add({chunks});
  runs.finish();
  const auto memory = runs.bytes_of(*chunks);
  EXPECT_TRUE(chunks->is_placed(0, memory));
  EXPECT_TRUE(chunks->is_untouched(1));
  EXPECT_TRUE(chunks->is_placed(2, memory));
  EXPECT_EQ(chunks->decodes(), std::vector<Decode>{Decode::on_device});
}

// Its decoded bytes fit no wave: readers decode it, and what is needed of it goes up.
TEST(WaveFormer, a_chunk_that_fits_no_wave_is_decoded_by_a_reader) {
  WaveRuns runs({.kind = Kind::lazy});
  constexpr std::size_t kLarge = WaveRuns::kDecoded + 1000;
  const auto chunks = runs.want({blosc_chunk(kLarge, {{1000, 100'000}}, 16'384)}, blosc_chain());
  chunks->read_in_part(false);
  runs.add({chunks});
  runs.finish();
  expect_placed(runs, chunks);
  EXPECT_EQ(chunks->decodes(), std::vector<Decode>{Decode::on_host});
}

// Not even the crop fits: it is divided, each part with a decode of its own.
TEST(WaveFormer, a_crop_that_fits_no_wave_is_divided) {
  WaveRuns runs({.kind = Kind::lazy});
  constexpr std::size_t kLarge = 700'000;
  const auto chunks = runs.want({raw_chunk(kLarge, {{100, kLarge - 100}})});
  runs.add({chunks});
  runs.finish();
  expect_placed(runs, chunks);
  EXPECT_GT(chunks->decoded(), 1);
}

TEST(WaveFormer, of_a_large_chunk_only_the_needed_blocks_are_read_and_decoded) {
  WaveRuns runs({.kind = Kind::lazy});
  const auto chunks = runs.want({blosc_chunk(200'000, {{7, 90}, {150'000, 150'001}}, 2048)}, blosc_chain());
  chunks->read_in_part(true);
  runs.add({chunks});
  runs.finish();
  expect_placed(runs, chunks);
  std::uint64_t bytes = 0;
  for (const ByteRange& range : chunks->object().reads()) bytes += range.size();
  EXPECT_LT(bytes, chunks->where(0).bytes / 4);
  EXPECT_EQ(chunks->decodes(), std::vector<Decode>{Decode::on_device});
}

TEST(WaveFormer, a_chunk_that_cannot_be_read_fails_and_its_wave_goes_on) {
  WaveRuns runs({.kind = Kind::lazy});
  const auto chunks = runs.want(packed_chunks(3), blosc_chain());
  chunks->object().damaged = {{chunks->where(1).offset, chunks->where(1).offset + 1}};
  runs.add({chunks});
  runs.finish();
  const auto memory = runs.bytes_of(*chunks);
  EXPECT_TRUE(chunks->is_placed(0, memory));
  EXPECT_TRUE(chunks->is_untouched(1));
  EXPECT_EQ(chunks->failures_of(1).size(), 1u);
  EXPECT_TRUE(chunks->is_placed(2, memory));
}

TEST(WaveFormer, a_stop_while_it_waits_for_a_wave_is_thrown) {
  WaveRuns runs({}, 1);
  const auto held = runs.slots.acquire({});
  std::stop_source stop;
  stop.request_stop();
  const std::vector<std::shared_ptr<WantedChunks>> chunks{runs.want(packed_chunks(1), blosc_chain())};
  const auto task = chunks[0]->new_task();
  const Error error = error_of([&] { runs.former.add({chunks, runs.readers, runs.memory()}, stop.get_token()); });
  EXPECT_EQ(error.status(), Status::shutdown);
}

TEST(FrameRoom, is_unlimited_until_a_wave_shows_how_many_bytes_fill_a_list_and_forgets_slowly) {
  FrameRoom room;
  EXPECT_EQ(room.bytes(), ~std::uint64_t{0});
  room.learn(0, 0);
  EXPECT_EQ(room.bytes(), ~std::uint64_t{0});
  room.learn(0.5, 1000);
  EXPECT_EQ(room.bytes(), 1800u);  // 0.9 of the list
  room.learn(0.01, 1000);
  EXPECT_GT(room.bytes(), 1800u);
  EXPECT_LT(room.bytes(), 2100u);
  room.learn(0.9, 1000);
  EXPECT_EQ(room.bytes(), 1000u);
  for (int wave = 0; wave < 10; ++wave) room.learn(0.9, 0);  // nothing was decoded: it shows nothing
  EXPECT_EQ(room.bytes(), 1000u);
  for (int wave = 0; wave < 300; ++wave) room.learn(0.001, 1'000'000);
  EXPECT_GT(room.bytes(), 1'000'000u);
}

}  // namespace
}  // namespace damacy
