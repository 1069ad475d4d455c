// What the sink of the host places, keeps and reports, for its own job and for those that joined a read.
#include "damacy/fetch/host_sink.h"

#include <map>

#include "conformance/chunk_sink_suite.h"
#include "damacy/cache/chunk_cache.h"
#include "damacy/store/storage_watch.h"
#include "support/error_of.h"

namespace damacy {
namespace {

using testing::blosc_chain;
using testing::blosc_chunk;
using testing::FakeChunk;
using testing::FakeChunks;
using testing::raw_chunk;
using Decode = WantedChunks::Decode;

constexpr std::size_t kMemory = 1 << 20;

struct Memory {
  Arena staging{std::make_shared<PageAlloc>(), kMemory};
  Arena scratch{std::make_shared<PageAlloc>(), kMemory};
  std::vector<DecodeContext> contexts = std::vector<DecodeContext>(2);
  DecodeMemory of() { return {staging, scratch, contexts}; }
};

struct HostSinkFixture {
  static constexpr bool kTakesParts = true;
  std::shared_ptr<ChunkSink> make(const std::shared_ptr<FakeChunks>& chunks) {
    return std::make_shared<HostSink>(chunks, memory->of());
  }
  std::vector<std::byte> finish(FakeChunks& chunks) {
    const auto bytes = chunks.to().memory();
    return {bytes.begin(), bytes.end()};
  }
  std::shared_ptr<Alloc> alloc() { return std::make_shared<PageAlloc>(); }
  std::shared_ptr<Memory> memory = std::make_shared<Memory>();
};
INSTANTIATE_TYPED_TEST_SUITE_P(Host, ChunkSinkSuite, HostSinkFixture);

// A sink that keeps what it can.
struct KeepingFixture : HostSinkFixture {
  std::shared_ptr<ChunkSink> make(const std::shared_ptr<FakeChunks>& chunks) {
    return std::make_shared<HostSink>(chunks, memory->of(), HostTiers{cache.get(), cache.get()});
  }
  std::shared_ptr<ChunkCache> cache = std::make_shared<ChunkCache>(kMemory, std::make_shared<PageAlloc>());
};
INSTANTIATE_TYPED_TEST_SUITE_P(HostKeeping, ChunkSinkSuite, KeepingFixture);

// A sink with others that joined.
class SharedSink final : public HostSink {
 public:
  using HostSink::HostSink;
  std::map<std::size_t, std::vector<ChunkConsumer>> joined;

 private:
  std::vector<ChunkConsumer> joined_to(std::size_t chunk) noexcept override {
    return std::exchange(joined[chunk], std::vector<ChunkConsumer>());
  }
};

class HostSinkTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = 10'000;

  std::shared_ptr<FakeChunks> wanted(FakeChunk chunk, CodecChain codecs = {}) {
    auto chunks = FakeChunks::make({std::move(chunk)}, {.codecs = std::move(codecs)});
    tasks_.push_back(chunks->new_task());
    return chunks;
  }
  std::shared_ptr<SharedSink> sink_of(const std::shared_ptr<FakeChunks>& chunks, HostTiers tiers = {}) {
    return std::make_shared<SharedSink>(chunks, memory_.of(), std::move(tiers));
  }
  static bool take(SharedSink& sink, FakeChunks& chunks, std::span<const ByteRange> available = {}) {
    return static_cast<ChunkSink&>(sink).take(0, 0, chunks.chunk(0).stored, available, {});
  }

  Memory memory_;
  std::vector<Task<Job>> tasks_;
};

TEST_F(HostSinkTest, one_decode_places_for_the_job_and_for_all_that_joined) {
  const auto own = wanted(blosc_chunk(kBytes, {{0, 100}}, 1024), blosc_chain());
  const auto second = wanted(blosc_chunk(kBytes, {{9000, kBytes}}, 1024), blosc_chain());
  const auto third = wanted(blosc_chunk(kBytes, {{50, 60}, {5000, 5001}}, 1024), blosc_chain());
  const auto sink = sink_of(own);
  sink->joined[0].emplace_back(second, 0);
  sink->joined[0].emplace_back(third, 0);
  EXPECT_TRUE(take(*sink, *own));
  for (const auto& chunks : {own, second, third}) EXPECT_TRUE(chunks->is_placed(0));
  EXPECT_EQ(own->decoded(), 1);
  EXPECT_EQ(second->decoded() + third->decoded(), 0);
  EXPECT_EQ(own->decodes(), std::vector<Decode>{Decode::on_host});
  EXPECT_EQ(second->decodes(), std::vector<Decode>{Decode::joined});
}

TEST_F(HostSinkTest, a_failed_read_fails_the_job_and_those_that_joined_and_no_other) {
  const auto own = wanted(raw_chunk(kBytes, {{0, 100}}));
  const auto joined = wanted(raw_chunk(kBytes, {{0, 10}}));
  const auto other = wanted(raw_chunk(kBytes, {{0, 10}}));
  const auto sink = sink_of(own);
  sink->joined[0].emplace_back(joined, 0);
  sink->fail_read(0, Error(Status::io, "gone", "io"));
  EXPECT_EQ(own->failures_of(0).size(), 1u);
  EXPECT_EQ(joined->failures_of(0).size(), 1u);
  EXPECT_TRUE(other->failures_of(0).empty());
  EXPECT_EQ(joined->open_reads(), 0);
}

TEST_F(HostSinkTest, a_chunk_that_does_not_decode_fails_for_those_that_joined_too) {
  FakeChunk damaged = blosc_chunk(kBytes, {{0, 100}}, 1024);
  damaged.stored.resize(20);
  const auto own = wanted(damaged, blosc_chain());
  const auto joined = wanted(damaged, blosc_chain());
  const auto sink = sink_of(own);
  sink->joined[0].emplace_back(joined, 0);
  EXPECT_TRUE(take(*sink, *own));
  for (const auto& chunks : {own, joined}) {
    ASSERT_EQ(chunks->failures_of(0).size(), 1u);
    EXPECT_EQ(chunks->failures_of(0)[0].status(), Status::decode);
    EXPECT_TRUE(chunks->is_untouched(0));
  }
}

TEST_F(HostSinkTest, a_damaged_chunk_of_a_cache_is_read_again_for_all) {
  const FakeChunk good = blosc_chunk(kBytes, {{0, 100}}, 1024);
  FakeChunk damaged = good;
  std::fill(damaged.stored.begin() + 16, damaged.stored.end(), std::byte{0xff});
  const auto own = wanted(damaged, blosc_chain());
  const auto joined = wanted(damaged, blosc_chain());
  own->object().in_store = good.stored;
  const auto sink = sink_of(own);
  sink->joined[0].emplace_back(joined, 0);
  EXPECT_TRUE(take(*sink, *own));
  for (const auto& chunks : {own, joined}) {
    EXPECT_TRUE(chunks->is_placed(0));
    EXPECT_TRUE(chunks->failures_of(0).empty());
  }
  EXPECT_EQ(own->object().kept, (std::vector<ByteRange>{{0, good.stored.size()}}));
  EXPECT_EQ(own->board().read().bytes_read, static_cast<std::int64_t>(good.stored.size()));
}

// The thread stays in its call, and must not hold those who joined meanwhile.
TEST_F(HostSinkTest, a_second_read_that_is_abandoned_fails_all_at_once_with_that_error) {
  const FakeChunk good = blosc_chunk(kBytes, {{0, 100}}, 1024);
  FakeChunk damaged = good;
  damaged.stored.resize(20);
  const auto own = wanted(damaged, blosc_chain());
  const auto joined = wanted(damaged, blosc_chain());
  const auto sink = sink_of(own);
  sink->joined[0].emplace_back(joined, 0);
  own->object().in_store = good.stored;
  own->object().during_read = [&] {
    sink->joined.clear();
    sink->fail_read(0, Error(Status::io, "no answer", "deadline"));
    EXPECT_EQ(joined->failures_of(0).size(), 1u);
    EXPECT_EQ(joined->open_reads(), 0);
    throw Abandoned();
  };
  EXPECT_THROW(take(*sink, *own), Abandoned);
  for (const auto& chunks : {own, joined}) {
    ASSERT_EQ(chunks->failures_of(0).size(), 1u);
    EXPECT_EQ(chunks->failures_of(0)[0].where().reason, "deadline");
    EXPECT_TRUE(chunks->is_untouched(0));
  }
}

// Its own job needs less than the one that joined.
TEST_F(HostSinkTest, a_part_of_a_raw_chunk_is_not_enough_for_one_that_joined_and_needs_more) {
  const auto own = wanted(raw_chunk(kBytes, {{0, 100}}));
  const auto joined = wanted(raw_chunk(kBytes, {{0, 200}}));
  const auto sink = sink_of(own);
  sink->joined[0].emplace_back(joined, 0);
  const ByteRange available{0, 100};
  EXPECT_FALSE(take(*sink, *own, {&available, 1}));
  EXPECT_TRUE(own->is_untouched(0));
  EXPECT_TRUE(joined->is_untouched(0));
}

TEST_F(HostSinkTest, decoded_chunks_are_kept_whole_if_there_is_room_and_only_if_they_decode) {
  for (const bool is_raw : {true, false}) {
    ChunkCache cache(kMemory, std::make_shared<PageAlloc>());
    const auto own = is_raw ? wanted(raw_chunk(kBytes, {{0, 100}}, 5))
                            : wanted(blosc_chunk(kBytes, {{0, 100}}, 1024, 6), blosc_chain());
    const auto sink = sink_of(own, {.decoded = &cache});
    EXPECT_TRUE(take(*sink, *own));
    EXPECT_TRUE(own->is_placed(0));
    EXPECT_EQ(own->decoded(), 1);
    const auto hold = sink->decoded().find(0);
    ASSERT_TRUE(hold);
    EXPECT_TRUE(std::ranges::equal(hold->bytes(), own->chunk(0).decoded));
  }
}

TEST_F(HostSinkTest, what_does_not_decode_is_not_kept) {
  ChunkCache cache(kMemory, std::make_shared<PageAlloc>());
  FakeChunk damaged = blosc_chunk(kBytes, {{0, 100}}, 1024);
  std::fill(damaged.stored.end() - 2000, damaged.stored.end(), std::byte{0xff});
  const auto own = wanted(damaged, blosc_chain());
  const auto sink = sink_of(own, {.decoded = &cache});
  take(*sink, *own);
  EXPECT_FALSE(sink->decoded().find(0));
  EXPECT_EQ(cache.counts().kept.chunks, 0);
}

TEST_F(HostSinkTest, encoded_bytes_are_kept_after_decoding_and_not_those_of_a_part_nor_damaged_ones) {
  FakeChunk damaged = blosc_chunk(kBytes, {{0, 100}}, 1024);
  std::fill(damaged.stored.begin() + 16, damaged.stored.end(), std::byte{0xff});
  for (const bool is_whole : {true, false})
    for (const bool is_good : {true, false}) {
      ChunkCache cache(kMemory, std::make_shared<PageAlloc>());
      const auto own = wanted(is_good ? blosc_chunk(kBytes, {{0, 100}}, 1024) : damaged, blosc_chain());
      const auto sink = sink_of(own, {.encoded = &cache});
      EXPECT_FALSE(sink->encoded().find(0));
      EXPECT_TRUE(sink->wants_whole(0));
      const ByteRange all{0, own->where(0).bytes};
      EXPECT_TRUE(take(*sink, *own, {&all, is_whole ? 0u : 1u}));
      const auto hold = sink->encoded().find(0);
      ASSERT_EQ(hold.has_value(), is_whole && is_good);
      EXPECT_TRUE(!hold || std::ranges::equal(hold->bytes(), own->chunk(0).stored));
      EXPECT_FALSE(sink->decoded().find(0));
    }
}

TEST_F(HostSinkTest, a_raw_chunk_of_another_size_than_the_room_is_placed_and_not_kept) {
  ChunkCache cache(kMemory, std::make_shared<PageAlloc>());
  const auto own = FakeChunks::make({raw_chunk(kBytes, {{0, 100}})}, {.chunk_bytes = kBytes + 1});
  tasks_.push_back(own->new_task());
  const auto sink = sink_of(own, {.decoded = &cache});
  EXPECT_TRUE(take(*sink, *own));
  EXPECT_TRUE(own->is_placed(0));
  EXPECT_EQ(cache.counts().kept.chunks, 0);
}

TEST_F(HostSinkTest, kept_encoded_chunks_are_decoded_and_placed) {
  ChunkCache cache(kMemory, std::make_shared<PageAlloc>());
  for (const bool is_raw : {true, false}) {
    const auto own =
        is_raw ? wanted(raw_chunk(kBytes, {{3, 7000}})) : wanted(blosc_chunk(kBytes, {{3, 7000}}, 1024), blosc_chain());
    const std::span<const std::byte> stored = own->chunk(0).stored;
    auto room = cache.reserve({{9, is_raw}}, stored.size(), 0);
    ASSERT_TRUE(room);
    std::ranges::copy(stored, room.bytes().begin());
    const ChunkTier::Hold kept = room.publish();
    const auto sink = sink_of(own);
    EXPECT_TRUE(sink->take_kept(0, 0, kept, {}));
    EXPECT_TRUE(own->is_placed(0));
  }
}

TEST_F(HostSinkTest, missing_chunks_are_filled_and_cached_ones_placed_without_a_decode) {
  FakeChunk missing = raw_chunk(kBytes, {{3, 9}, {100, 4000}});
  missing.missing = true;
  const auto absent = wanted(missing);
  sink_of(absent)->fill(0);
  EXPECT_TRUE(absent->is_placed(0));
  EXPECT_TRUE(absent->decodes().empty());

  const auto cached = wanted(raw_chunk(kBytes, {{3, 9}, {100, 4000}}));
  const HostSink::Decoded decoded{0, cached->chunk(0).decoded};
  sink_of(cached)->place_cached({&decoded, 1});
  EXPECT_TRUE(cached->is_placed(0));
  EXPECT_EQ(cached->decoded(), 0);
  EXPECT_EQ(cached->decodes(), std::vector<Decode>{Decode::cached});
}

// A destination beyond the caches: rows that several chunks share are written once, in order.
TEST_F(HostSinkTest, cached_chunks_of_a_large_destination_are_placed_together) {
  constexpr std::size_t kLarge = 17 << 20;
  const auto chunks = FakeChunks::make({raw_chunk(kLarge, {{0, kLarge}}, 1), raw_chunk(kLarge, {{1, kLarge}}, 2)});
  tasks_.push_back(chunks->new_task());
  const std::vector<HostSink::Decoded> decoded{{1, chunks->chunk(1).decoded}, {0, chunks->chunk(0).decoded}};
  sink_of(chunks)->place_cached(decoded);
  EXPECT_TRUE(chunks->is_placed(0));
  EXPECT_TRUE(chunks->is_placed(1));
  EXPECT_EQ(chunks->decodes(), (std::vector<Decode>{Decode::cached, Decode::cached}));
}

TEST_F(HostSinkTest, a_stop_while_it_waits_for_scratch_fails_the_chunk) {
  const auto own = wanted(blosc_chunk(kBytes, {{0, 100}}, 1024), blosc_chain());
  const Arena::Piece all = memory_.scratch.take(kMemory, {});
  std::stop_source stop;
  stop.request_stop();
  const std::shared_ptr<ChunkSink> sink = sink_of(own);
  EXPECT_TRUE(sink->take(0, 0, own->chunk(0).stored, {}, stop.get_token()));
  ASSERT_EQ(own->failures_of(0).size(), 1u);
  EXPECT_EQ(own->failures_of(0)[0].status(), Status::shutdown);
}

}  // namespace
}  // namespace damacy
