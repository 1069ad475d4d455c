// The sinks and requests that bring chunks into a wave, under their contracts: what readers stage is uploaded, decoded
// and placed by a runner on a host device.
#include <memory>
#include <utility>

#include "conformance/chunk_sink_suite.h"
#include "conformance/request_suite.h"
#include "damacy/wave/block_reads.h"
#include "damacy/wave/crop_sink.h"
#include "damacy/wave/encoded_sink.h"
#include "support/wave_runs.h"

namespace damacy {
namespace {

using testing::blosc_chain;
using testing::blosc_chunk;
using testing::FakeChunk;
using testing::FakeChunks;
using testing::raw_chunk;
using testing::WaveRuns;
using Kind = HostOrder::Kind;

// A wave that gets the chunks by hand.
template <Kind kind>
struct WaveFixture {
  std::shared_ptr<Alloc> alloc() { return runs->device->device_memory(); }
  std::vector<std::byte> finish(FakeChunks& chunks) {
    wave->seal(0);
    wave.reset();
    runs->runner.finish();
    return runs->bytes_of(chunks);
  }
  std::unique_ptr<WaveRuns> runs = std::make_unique<WaveRuns>(HostOrder{.kind = kind, .seed = 5});
  std::shared_ptr<Wave> wave = runs->new_wave();
};

template <Kind kind>
struct EncodedFixture : WaveFixture<kind> {
  static constexpr bool kTakesParts = false;
  std::shared_ptr<ChunkSink> make(const std::shared_ptr<FakeChunks>& chunks) {
    Wave& to = *this->wave;
    const std::size_t count = chunks->wants().chunks.size();
    const std::uint64_t bytes = chunks->where(count - 1).offset + chunks->where(count - 1).bytes;
    to.reserve(Wave::padded(bytes), ~std::uint64_t{0}, {});
    StagedRange range = to.stage(bytes);
    std::vector<StagedChunk*> all;
    for (std::uint32_t c = 0; c < count; ++c) {
      StagedChunk& staged = to.add(chunks, c);
      staged.staged_at = range.begin() + chunks->where(c).offset;
      staged.staged_bytes = chunks->where(c).bytes;
      staged.decoded_at = to.decode(chunks->metadata_of(c).chunk_bytes());
      staged.by_device = true;
      all.push_back(&staged);
    }
    return std::make_shared<EncodedSink>(this->wave, chunks, std::move(range), std::move(all), EncodedCaches{});
  }
};

template <Kind kind, bool whole = false>
struct CropFixture : WaveFixture<kind> {
  static constexpr bool kTakesParts = true;
  std::shared_ptr<ChunkSink> make(const std::shared_ptr<FakeChunks>& chunks) {
    Crops crops;
    for (std::uint32_t c = 0; c < chunks->wants().chunks.size(); ++c) {
      CropsOfChunk& of_chunk = crops[c];
      of_chunk.staged = &this->wave->add(chunks, c);
      if (whole) {
        const auto needed = chunks->needed_bytes(c);
        const ByteRange all{needed.front().begin, needed.back().end};
        of_chunk.whole.emplace(all, stage(all.size()));
        continue;
      }
      chunks->for_uses(c, WantedChunks::From::chunk, [&](const Use& use) {
        of_chunk.crops.push_back({use.copy, stage(bytes_of_crop(use.copy))});
        of_chunk.staged->placed.add(use.part, use.elements());
      });
    }
    return std::make_shared<CropSink>(this->wave, chunks, std::move(crops), this->runs->memory());
  }

 private:
  StagedRange stage(std::uint64_t bytes) {
    this->wave->reserve(Wave::padded(bytes), ~std::uint64_t{0}, {});
    return this->wave->stage(bytes);
  }
};

using LazyWholeCrops = CropFixture<Kind::lazy, true>;
INSTANTIATE_TYPED_TEST_SUITE_P(Encoded, ChunkSinkSuite, EncodedFixture<Kind::eager>);
INSTANTIATE_TYPED_TEST_SUITE_P(EncodedLazy, ChunkSinkSuite, EncodedFixture<Kind::lazy>);
INSTANTIATE_TYPED_TEST_SUITE_P(EncodedRandom, ChunkSinkSuite, EncodedFixture<Kind::random>);
INSTANTIATE_TYPED_TEST_SUITE_P(Crops, ChunkSinkSuite, CropFixture<Kind::eager>);
INSTANTIATE_TYPED_TEST_SUITE_P(CropsLazy, ChunkSinkSuite, CropFixture<Kind::lazy>);
INSTANTIATE_TYPED_TEST_SUITE_P(WholeCropsLazy, ChunkSinkSuite, LazyWholeCrops);

constexpr std::size_t kBytes = 30'000;

std::vector<FakeChunk> three_packed() {
  return {blosc_chunk(kBytes, {{0, 10}}, 2048, 1), blosc_chunk(kBytes, {{100, kBytes}}, 2048, 2),
          blosc_chunk(kBytes, {{7, 9}, {20'000, 20'001}}, 2048, 3)};
}

// A run of chunks into such a sink.
template <class SinkFixture>
struct RunFixture : SinkFixture {
  static constexpr bool kReads = true;
  static std::vector<FakeChunk> chunks() { return three_packed(); }
  static CodecChain codecs() { return blosc_chain(); }
  std::unique_ptr<Request> make(const std::shared_ptr<FakeChunks>& chunks) {
    return std::make_unique<ChunkRunRead>(SinkFixture::make(chunks), find_reads(chunks->wants()).runs.front());
  }
};

template <Kind kind>
struct BlocksFixture : WaveFixture<kind> {
  static constexpr bool kReads = true;
  static std::vector<FakeChunk> chunks() { return {blosc_chunk(200'000, {{7, 90}, {150'000, 150'001}}, 2048)}; }
  static CodecChain codecs() { return blosc_chain(); }
  std::unique_ptr<Request> make(const std::shared_ptr<FakeChunks>& chunks) {
    const std::vector<std::uint32_t> asked{0};
    const auto table = read_tables(chunks, asked, this->runs->readers, {}).front();
    EXPECT_NE(table.blocks, nullptr);
    Wave& to = *this->wave;
    to.reserve(Wave::padded(table.blocks->staged_bytes), ~std::uint64_t{0}, {});
    StagedRange range = to.stage(table.blocks->staged_bytes);
    StagedChunk& staged = to.add(chunks, 0);
    staged.blocks = table.blocks;
    staged.staged_at = range.begin();
    staged.staged_bytes = table.blocks->staged_bytes;
    staged.decoded_at = to.decode(table.blocks->decoded_bytes, table.blocks->frames);
    staged.by_device = true;
    return std::make_unique<BlocksRead>(this->wave, chunks, staged, std::move(range), this->runs->memory());
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(EncodedRun, RequestSuite, RunFixture<EncodedFixture<Kind::lazy>>);
INSTANTIATE_TYPED_TEST_SUITE_P(CropRun, RequestSuite, RunFixture<CropFixture<Kind::lazy>>);
INSTANTIATE_TYPED_TEST_SUITE_P(Blocks, RequestSuite, BlocksFixture<Kind::lazy>);
INSTANTIATE_TYPED_TEST_SUITE_P(BlocksRandom, RequestSuite, BlocksFixture<Kind::random>);

TEST(Blocks, only_the_needed_ones_are_read_behind_the_table) {
  BlocksFixture<Kind::eager> fixture;
  const auto chunks = FakeChunks::make(fixture.chunks(), {.codecs = blosc_chain(), .alloc = fixture.alloc()});
  const auto task = chunks->new_task();
  const auto request = fixture.make(chunks);
  testing::serve(*request);
  std::uint64_t bytes = 0;
  for (const ByteRange& range : chunks->object().reads()) bytes += range.size();
  EXPECT_LT(bytes, chunks->where(0).bytes / 4);
  EXPECT_TRUE(chunks->is_placed(0, fixture.finish(*chunks)));
}

// The device finds nothing to decode where the bytes of a block are damaged: a reader decodes the whole chunk, or
// fails.
TEST(Blocks, a_damaged_block_fails_the_chunk_and_one_that_is_not_needed_does_not) {
  for (const bool is_needed : {true, false}) {
    BlocksFixture<Kind::lazy> fixture;
    auto stored = fixture.chunks();
    const std::size_t at = stored[0].stored.size() * (is_needed ? 75 : 40) / 100;
    std::fill_n(stored[0].stored.begin() + static_cast<std::ptrdiff_t>(at), 3000, std::byte{0xff});
    const auto chunks = FakeChunks::make(stored, {.codecs = blosc_chain(), .alloc = fixture.alloc()});
    const auto task = chunks->new_task();
    auto request = fixture.make(chunks);
    testing::serve(*request);
    request.reset();
    const auto memory = fixture.finish(*chunks);
    EXPECT_EQ(chunks->failures_of(0).size(), is_needed ? 1u : 0u);
    if (!is_needed) {
      EXPECT_TRUE(chunks->is_placed(0, memory));
    }
  }
}

}  // namespace
}  // namespace damacy
