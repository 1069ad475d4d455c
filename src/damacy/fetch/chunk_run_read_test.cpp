// The requests that read chunks: which bytes they ask for, and what a failure fails.
#include <utility>

#include "conformance/request_suite.h"
#include "damacy/core/clock.h"
#include "damacy/fetch/chunk_reads.h"
#include "damacy/fetch/host_sink.h"
#include "support/error_of.h"

namespace damacy {
namespace {

using testing::blosc_chain;
using testing::blosc_chunk;
using testing::FakeChunk;
using testing::FakeChunks;
using testing::raw_chunk;
using testing::serve;
using Ranges = std::vector<ByteRange>;

constexpr std::size_t kBytes = 30'000;

struct HostFixture {
  static constexpr bool kReads = true;
  std::vector<std::byte> finish(FakeChunks& chunks) {
    const auto bytes = chunks.to().memory();
    return {bytes.begin(), bytes.end()};
  }
  std::shared_ptr<Alloc> alloc() { return std::make_shared<PageAlloc>(); }
  std::shared_ptr<HostSink> sink(const std::shared_ptr<FakeChunks>& chunks) {
    return std::make_shared<HostSink>(chunks, DecodeMemory{*staging, *scratch, *contexts});
  }
  std::shared_ptr<Arena> staging = std::make_shared<Arena>(std::make_shared<PageAlloc>(), 1 << 20);
  std::shared_ptr<Arena> scratch = std::make_shared<Arena>(std::make_shared<PageAlloc>(), 1 << 20);
  std::shared_ptr<std::vector<DecodeContext>> contexts = std::make_shared<std::vector<DecodeContext>>(2);
};

ChunkRun run_of_all(const FakeChunks& chunks) {
  ChunkReads reads = find_reads(chunks.wants());
  EXPECT_EQ(reads.runs.size(), 1u);
  return reads.runs.front();
}

struct RunFixture : HostFixture {
  static std::vector<FakeChunk> chunks() {
    return {blosc_chunk(kBytes, {{0, 10}}, 2048, 1), blosc_chunk(kBytes, {{100, kBytes}}, 2048, 2),
            blosc_chunk(kBytes, {{7, 9}, {20'000, 20'001}}, 2048, 3)};
  }
  static CodecChain codecs() { return blosc_chain(); }
  std::unique_ptr<Request> make(const std::shared_ptr<FakeChunks>& chunks) {
    return std::make_unique<ChunkRunRead>(sink(chunks), run_of_all(*chunks));
  }
};

struct PartFixture : HostFixture {
  static std::vector<FakeChunk> chunks() { return {blosc_chunk(kBytes, {{7, 9}, {20'000, 20'001}}, 2048)}; }
  static CodecChain codecs() { return blosc_chain(); }
  std::unique_ptr<Request> make(const std::shared_ptr<FakeChunks>& chunks) {
    return std::make_unique<PartialRead>(sink(chunks), 0);
  }
};

struct RawPartFixture : PartFixture {
  static std::vector<FakeChunk> chunks() { return {raw_chunk(kBytes, {{7, 9}, {20'000, 20'001}})}; }
  static CodecChain codecs() { return {}; }
};

// Its first read is that of the run.
struct OpeningFixture : RunFixture {
  std::unique_ptr<Request> make(const std::shared_ptr<FakeChunks>& chunks) {
    return std::make_unique<OpeningRead>(
        *readers, chunks, [this, chunks] { return OpeningRead::Opened{sink(chunks), find_reads(chunks->wants())}; });
  }
  std::shared_ptr<Readers> readers = std::make_shared<Readers>(
      ThreadCounts{.readers = 1, .readers_at_once = 1, .blocking = 1}, std::make_shared<SteadyClock>());
};

INSTANTIATE_TYPED_TEST_SUITE_P(ChunkRunRead, RequestSuite, RunFixture);
INSTANTIATE_TYPED_TEST_SUITE_P(PartialRead, RequestSuite, PartFixture);
INSTANTIATE_TYPED_TEST_SUITE_P(RawPartialRead, RequestSuite, RawPartFixture);
INSTANTIATE_TYPED_TEST_SUITE_P(OpeningRead, RequestSuite, OpeningFixture);

// Notes what it is given instead of decoding it.
class NotingSink final : public ChunkSink {
 public:
  explicit NotingSink(std::shared_ptr<FakeChunks> chunks) : chunks_(std::move(chunks)) {}
  FetchedChunks& chunks() noexcept override { return *chunks_; }
  ReadBuffer buffer(std::uint64_t bytes, std::stop_token) override {
    asked.push_back(bytes);
    if (const auto refuses = std::exchange(refuse, std::nullopt)) throw Error(*refuses);
    memory_.assign(bytes, std::byte{0xee});
    return {memory_, nullptr};
  }
  bool takes_held_bytes() const noexcept override { return takes_held; }
  bool wants_whole(std::size_t) const noexcept override { return whole; }
  void fail_read(std::size_t chunk, const Error& why) noexcept override { failed.push_back({chunk, why}); }
  bool take(std::size_t, std::size_t chunk, std::span<const std::byte> packed, std::span<const ByteRange> available,
            std::stop_token) noexcept override {
    taken.push_back({chunk, {packed.begin(), packed.end()}, {available.begin(), available.end()}});
    if (too_few == 0) return true;
    --too_few;
    return false;
  }

  struct Taken {
    std::size_t chunk;
    std::vector<std::byte> packed;
    Ranges available;
  };
  std::vector<Taken> taken;
  std::vector<std::pair<std::size_t, Error>> failed;
  std::vector<std::uint64_t> asked;  // sizes of buffers
  std::optional<Error> refuse;       // what the next buffer() throws
  int too_few = 0;                   // so many times
  bool takes_held = false, whole = false;

 private:
  const std::shared_ptr<FakeChunks> chunks_;
  std::vector<std::byte> memory_;
};

class ReadsTest : public ::testing::Test {
 protected:
  void want(std::vector<FakeChunk> chunks, CodecChain codecs = {}, std::uint64_t gap = 0) {
    wanted = FakeChunks::make(std::move(chunks), {.codecs = std::move(codecs), .gap = gap});
    task = wanted->new_task();
    sink = std::make_shared<NotingSink>(wanted);
  }
  void want_three(std::uint64_t gap = 100) {
    want({raw_chunk(1000, {{0, 1}}, 1), raw_chunk(1000, {{0, 1}}, 2), raw_chunk(1000, {{0, 1}}, 3)}, {}, gap);
  }
  void read_run(Nearness nearness = Nearness::far) {
    ChunkRun run = run_of_all(*wanted);
    run.nearness = nearness;
    ChunkRunRead read(sink, std::move(run));
    serve(read);
  }
  void read_part() {
    PartialRead read(sink, 0);
    serve(read);
  }
  Ranges read() const { return wanted->object().reads(); }
  std::vector<std::size_t> taken() const {
    std::vector<std::size_t> chunks;
    for (const auto& one : sink->taken) {
      chunks.push_back(one.chunk);
      EXPECT_TRUE(std::ranges::equal(one.packed, wanted->chunk(one.chunk).stored));
    }
    return chunks;
  }

  std::shared_ptr<FakeChunks> wanted;
  Task<Job> task;
  std::shared_ptr<NotingSink> sink;
};

TEST_F(ReadsTest, a_run_is_one_read_and_its_chunks_are_taken_in_order) {
  want_three();
  read_run();
  EXPECT_EQ(read(), (Ranges{{100, 3300}}));
  EXPECT_EQ(taken(), (std::vector<std::size_t>{0, 1, 2}));
  const Stats stats = wanted->board().read();
  EXPECT_EQ(stats.reads_issued, 1);
  EXPECT_EQ(stats.bytes_read, 3200);  // with the gaps
}

TEST_F(ReadsTest, where_a_run_cannot_be_read_only_the_chunks_that_cannot_fail) {
  want_three();
  wanted->object().damaged = {{1300, 1301}};
  read_run();
  EXPECT_EQ(taken(), (std::vector<std::size_t>{0, 2}));
  ASSERT_EQ(sink->failed.size(), 1u);
  EXPECT_EQ(sink->failed[0].first, 1u);
  EXPECT_EQ(read().size(), 4u);  // of all, and of each
}

TEST_F(ReadsTest, a_run_of_one_chunk_is_not_read_again) {
  want({raw_chunk(1000, {{0, 1}})});
  wanted->object().damaged = {{0, 1}};
  read_run();
  EXPECT_EQ(read().size(), 1u);
  EXPECT_EQ(sink->failed.size(), 1u);
}

TEST_F(ReadsTest, without_memory_for_a_run_its_chunks_are_read_one_by_one) {
  want_three();
  sink->refuse = Error(Status::io, "hung reads hold the memory", "deadline");
  read_run();
  EXPECT_EQ(sink->asked, (std::vector<std::uint64_t>{3200, 1000, 1000, 1000}));
  EXPECT_EQ(read(), (Ranges{{100, 1100}, {1200, 2200}, {2300, 3300}}));
  EXPECT_EQ(taken(), (std::vector<std::size_t>{0, 1, 2}));
}

TEST_F(ReadsTest, another_refusal_of_memory_fails_all_of_a_run) {
  want_three();
  sink->refuse = Error(Status::oom, "larger than the buffer", "buffers");
  read_run();
  EXPECT_TRUE(sink->taken.empty());
  ASSERT_EQ(sink->failed.size(), 3u);
  EXPECT_EQ(sink->failed[2].second.status(), Status::oom);
  EXPECT_EQ(read().size(), 0u);
}

TEST_F(ReadsTest, bytes_that_are_in_memory_are_taken_from_there) {
  want_three();
  wanted->object().holds = true;
  sink->takes_held = true;
  read_run();
  EXPECT_TRUE(read().empty());
  EXPECT_TRUE(sink->asked.empty());
  EXPECT_EQ(taken(), (std::vector<std::size_t>{0, 1, 2}));
}

TEST_F(ReadsTest, a_sink_that_wants_its_buffer_gets_it_although_the_bytes_are_in_memory) {
  want_three();
  wanted->object().holds = true;
  read_run();
  EXPECT_EQ(read().size(), 1u);
  EXPECT_EQ(sink->asked.size(), 1u);
}

TEST_F(ReadsTest, near_chunks_are_read_together_by_their_places_and_not_offered_again) {
  want_three();
  read_run(Nearness::near);
  EXPECT_EQ(wanted->object().near_pieces, (Ranges{{100, 1100}, {1200, 2200}, {2300, 3300}}));
  EXPECT_EQ(read().size(), 1u);
  EXPECT_EQ(taken(), (std::vector<std::size_t>{0, 1, 2}));
  EXPECT_TRUE(wanted->object().kept.empty());
}

TEST_F(ReadsTest, of_near_chunks_only_those_that_cannot_be_read_fail) {
  want_three();
  wanted->object().damaged = {{1300, 1301}};
  read_run(Nearness::near);
  EXPECT_EQ(taken(), (std::vector<std::size_t>{0, 2}));
  ASSERT_EQ(sink->failed.size(), 1u);
  EXPECT_EQ(sink->failed[0].first, 1u);
}

TEST_F(ReadsTest, only_what_a_cache_wants_is_offered_to_it_chunk_by_chunk) {
  want_three();
  read_run(Nearness::wanted);
  EXPECT_EQ(wanted->object().kept, (Ranges{{100, 1100}, {1200, 2200}, {2300, 3300}}));
  want_three();
  read_run(Nearness::far);
  EXPECT_TRUE(wanted->object().kept.empty());
}

TEST_F(ReadsTest, a_job_that_is_not_wanted_any_more_reads_nothing) {
  want_three();
  wanted->unwanted = Error(Status::shutdown, "cancelled", "cancelled");
  read_run();
  EXPECT_TRUE(read().empty());
  EXPECT_EQ(sink->failed.size(), 3u);
}

TEST_F(ReadsTest, parts_of_a_raw_chunk_are_read_to_their_places) {
  want({raw_chunk(kBytes, {{500, 600}, {20'000, 20'010}})}, {}, /*gap=*/64);
  read_part();
  EXPECT_EQ(read(), (Ranges{{564, 664}, {20'064, 20'074}}));
  ASSERT_EQ(sink->taken.size(), 1u);
  EXPECT_EQ(sink->taken[0].available, (Ranges{{500, 600}, {20'000, 20'010}}));
  for (const ByteRange& range : sink->taken[0].available)
    for (std::uint64_t i = range.begin; i < range.end; ++i)
      ASSERT_EQ(sink->taken[0].packed[i], wanted->chunk(0).stored[i]) << i;
}

TEST_F(ReadsTest, where_parts_of_a_raw_chunk_are_too_few_all_of_it_is_read) {
  want({raw_chunk(kBytes, {{500, 600}})});
  sink->too_few = 1;
  read_part();
  EXPECT_EQ(read(), (Ranges{{500, 600}, {0, kBytes}}));
  ASSERT_EQ(sink->taken.size(), 2u);
  EXPECT_TRUE(sink->taken[1].available.empty());
  EXPECT_TRUE(std::ranges::equal(sink->taken[1].packed, wanted->chunk(0).stored));
  EXPECT_TRUE(sink->failed.empty());
}

TEST_F(ReadsTest, of_a_packed_chunk_the_head_is_read_first_and_then_the_blocks_that_are_needed) {
  constexpr std::size_t kLarge = 1 << 20;
  want({blosc_chunk(kLarge, {{900'000, 900'010}}, 16'384)}, blosc_chain());
  read_part();
  const Ranges reads = read();
  ASSERT_GE(reads.size(), 2u);
  EXPECT_EQ(reads[0], (ByteRange{0, CodecChain::kHeadBytes}));
  std::uint64_t bytes = 0;
  for (const ByteRange& range : reads) bytes += range.size();
  EXPECT_LT(bytes, wanted->where(0).bytes / 4);
  ASSERT_EQ(sink->taken.size(), 1u);
  EXPECT_FALSE(sink->taken[0].available.empty());
}

TEST_F(ReadsTest, a_sink_that_keeps_chunks_gets_all_of_one_and_if_that_fails_what_is_needed) {
  want({raw_chunk(kBytes, {{500, 600}})});
  sink->whole = true;
  read_part();
  EXPECT_EQ(read(), (Ranges{{0, kBytes}}));
  EXPECT_TRUE(sink->taken[0].available.empty());

  want({raw_chunk(kBytes, {{500, 600}})});
  sink->whole = true;
  wanted->object().damaged = {{20'000, 20'001}};
  read_part();
  EXPECT_EQ(read(), (Ranges{{0, kBytes}, {500, 600}}));
  EXPECT_TRUE(sink->failed.empty());
}

TEST_F(ReadsTest, a_head_that_is_no_packed_chunk_fails_it) {
  FakeChunk damaged = blosc_chunk(kBytes, {{500, 600}}, 2048);
  for (std::byte& byte : damaged.stored) byte = std::byte{0xff};
  want({damaged}, blosc_chain());
  read_part();
  EXPECT_TRUE(sink->taken.empty());
  ASSERT_EQ(wanted->failures_of(0).size() + sink->failed.size(), 1u);
}

// --- which reads -----------------------------------------------------------------------------------------------------

TEST(FindReads, chunks_near_each_other_are_one_read_up_to_a_gap_and_a_size) {
  const auto near = FakeChunks::make({raw_chunk(1000, {{0, 1}}), raw_chunk(1000, {{0, 1}})}, {.gap = 4096});
  EXPECT_EQ(find_reads(near->wants()).runs.size(), 1u);
  const auto far = FakeChunks::make({raw_chunk(1000, {{0, 1}}), raw_chunk(1000, {{0, 1}})}, {.gap = 4097});
  EXPECT_EQ(find_reads(far->wants()).runs.size(), 2u);
  constexpr std::size_t kHalf = 512 << 10;
  std::vector<FakeChunk> halves(3, raw_chunk(kHalf, {{0, kHalf}}));
  const auto reads = find_reads(FakeChunks::make(halves)->wants());
  ASSERT_EQ(reads.runs.size(), 2u);  // of 1 MiB, and the rest
  EXPECT_EQ(reads.runs[0].chunks.size(), 2u);
}

TEST(FindReads, little_of_a_large_chunk_is_read_in_part_and_much_of_it_or_a_smaller_one_is_not) {
  constexpr std::size_t kLarge = 512 << 10;
  const auto parts = [](std::size_t bytes, std::uint64_t needed, CodecChain codecs = {}) {
    auto chunk = codecs.is_raw() ? raw_chunk(bytes, {{0, needed}}) : blosc_chunk(bytes, {{0, needed}}, 16'384);
    chunk.stored.resize(bytes);
    return find_reads(FakeChunks::make({chunk}, {.codecs = std::move(codecs)})->wants()).partial.size();
  };
  EXPECT_EQ(parts(kLarge, kLarge / 4 * 3), 1u);
  EXPECT_EQ(parts(kLarge, kLarge / 4 * 3 + 1), 0u);
  EXPECT_EQ(parts(kLarge - 1, 1), 0u);
  EXPECT_EQ(parts(kLarge, 1, blosc_chain()), 1u);
  EXPECT_EQ(parts(kLarge, 1, CodecChain({{.id = CodecId::zstd, .name = "zstd"}})), 0u);
}

TEST(FindReads, missing_chunks_are_listed_failed_ones_are_not_and_what_is_elsewhere_is_not_read) {
  std::vector<FakeChunk> chunks(5, raw_chunk(1000, {{0, 1}}));
  chunks[0].missing = true;
  chunks[1].failed = true;
  std::vector<std::uint32_t> asked;
  const ChunkReads reads = find_reads(FakeChunks::make(chunks)->wants(), [&](std::uint32_t chunk) {
    asked.push_back(chunk);
    return chunk == 3;
  });
  EXPECT_EQ(reads.missing, std::vector<std::uint32_t>{0});
  EXPECT_EQ(asked, (std::vector<std::uint32_t>{2, 3, 4}));  // each that is to be read, once
  std::vector<std::uint32_t> read;
  for (const ChunkRun& run : reads.runs) read.insert(read.end(), run.chunks.begin(), run.chunks.end());
  EXPECT_EQ(read, (std::vector<std::uint32_t>{2, 4}));
}

TEST(FindReads, a_chunk_that_a_cache_has_or_wants_is_not_read_in_part) {
  constexpr std::size_t kLarge = 600 << 10;
  for (const Nearness nearness : {Nearness::near, Nearness::wanted}) {
    const auto chunks = FakeChunks::make({raw_chunk(kLarge, {{0, 1}})});
    chunks->object().near = nearness;
    const ChunkReads reads = find_reads(chunks->wants());
    EXPECT_TRUE(reads.partial.empty());
    ASSERT_EQ(reads.runs.size(), 1u);
    EXPECT_EQ(reads.runs[0].nearness, nearness);
  }
}

}  // namespace
}  // namespace damacy
