// What single reads keep of decoded chunks, which later reads find them, and which changes they notice.
#include "damacy/single/keeping_sink.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "conformance/chunk_sink_suite.h"
#include "damacy/cache/chunk_cache.h"
#include "damacy/single/process_readers.h"
#include "support/eventually.h"
#include "support/selection_reads.h"

namespace damacy {
namespace {

using testing::FakeChunk;
using testing::FakeChunks;
using testing::raw_chunk;
using testing::SelectionReads;

std::shared_ptr<ChunkTier> a_cache() {
  return std::make_shared<ChunkCache>(16 << 20, std::make_shared<PageAlloc>());
}

constexpr std::string_view kDocument =
    R"({"zarr_format": 3, "node_type": "array", "data_type": "uint8", "fill_value": 0, "shape": [4],
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
        "chunk_key_encoding": {"name": "default"}, "codecs": [{"name": "bytes"}]})";

class OneStore final : public Store {
 public:
  explicit OneStore(std::string name, bool is_remote = false, bool is_immutable = false)
      : name_(std::move(name)), is_remote_(is_remote), is_immutable_(is_immutable) {}
  std::string name() const override { return name_; }
  std::string identity() const override { return name_; }
  std::string cache_identity() const override { return name_; }
  bool is_remote() const noexcept override { return is_remote_; }
  bool is_immutable() const noexcept override { return is_immutable_; }
  std::shared_ptr<Object> open(std::string_view) override { return nullptr; }
  std::optional<Stamp> stamp(std::string_view) override { return std::nullopt; }
  std::vector<Entry> list(std::string_view) override { return {}; }

 private:
  const std::string name_;
  const bool is_remote_, is_immutable_;
};

// Sinks of jobs that have a cache; the chunks are those of a fake object, which is old.
class Keepers {
 public:
  struct With {
    std::shared_ptr<Store> store = std::make_shared<OneStore>("store");
    std::string document = std::string(kDocument);
    std::string key = "c/0";
    bool keeps_indices = true;
  };
  std::shared_ptr<KeepingSink> sink(const std::shared_ptr<FakeChunks>& chunks, const With& with) {
    SelectionRequest request;
    request.object = stored_array("array", with.document, 3);
    request.store = with.store;
    request.keeps_indices = with.keeps_indices;
    request.cache = cache;
    jobs_.push_back(std::make_shared<SelectionJob>(*readers, std::move(request), [] {}));
    tasks_.emplace_back(jobs_.back());
    const auto name_of = [key = with.key](std::size_t chunk) { return KeepingSink::Name{key, chunk}; };
    return std::make_shared<KeepingSink>(*jobs_.back(), chunks, name_of, system_ns());
  }
  // Reads what is not in the cache, as an opened object's reads do. Returns how many chunks were read.
  std::size_t read(const std::shared_ptr<FakeChunks>& chunks, const With& with) {
    const auto sink = this->sink(chunks, with);
    const ChunkReads reads = place_kept(sink, readers->threads());
    std::size_t count = 0;
    for (const ChunkRun& run : reads.runs) {
      count += run.chunks.size();
      ChunkRunRead request(sink, run);
      testing::serve(request);
    }
    return count;
  }

  std::shared_ptr<ChunkTier> cache = a_cache();
  std::shared_ptr<SelectionReaders> readers = std::make_shared<SelectionReaders>(1, IndexCache());

 private:
  std::vector<std::shared_ptr<SelectionJob>> jobs_;
  std::vector<Task<SelectionJob>> tasks_;
};

template <bool kHasCache>
struct KeepingFixture {
  static constexpr bool kTakesParts = true;
  std::shared_ptr<ChunkSink> make(const std::shared_ptr<FakeChunks>& chunks) {
    if (!kHasCache) keepers->cache = nullptr;
    return keepers->sink(chunks, {});
  }
  std::vector<std::byte> finish(FakeChunks& chunks) {
    const auto bytes = chunks.to().memory();
    return {bytes.begin(), bytes.end()};
  }
  std::shared_ptr<Alloc> alloc() { return std::make_shared<PageAlloc>(); }
  std::shared_ptr<Keepers> keepers = std::make_shared<Keepers>();
};
INSTANTIATE_TYPED_TEST_SUITE_P(Keeping, ChunkSinkSuite, KeepingFixture<true>);
INSTANTIATE_TYPED_TEST_SUITE_P(KeepingNothing, ChunkSinkSuite, KeepingFixture<false>);

class KeepingSinkTest : public ::testing::Test {
 protected:
  static std::shared_ptr<FakeChunks> chunks(std::size_t count = 3) {
    std::vector<FakeChunk> all;
    for (unsigned seed = 0; seed < count; ++seed) all.push_back(raw_chunk(10'000, {{10, 500}, {600, 9000}}, seed));
    return FakeChunks::make(std::move(all));
  }
  // Of three chunks, by a later read.
  std::size_t reads_again(const Keepers::With& first, const Keepers::With& second) {
    Keepers keepers;
    for (const Keepers::With* with : {&first, &second}) {
      const auto wanted = chunks();
      const Task<Job> task = wanted->new_task();
      const std::size_t read = keepers.read(wanted, *with);
      for (std::size_t c = 0; c < 3; ++c) EXPECT_TRUE(wanted->is_placed(c));
      if (with == &second) return read;
      EXPECT_EQ(read, 3u);
    }
    return 0;
  }
};

TEST_F(KeepingSinkTest, a_later_read_finds_chunks_of_the_same_array_store_object_and_version_only) {
  EXPECT_EQ(reads_again({}, {}), 0u);
  EXPECT_EQ(reads_again({}, {.key = "c/1"}), 3u);
  EXPECT_EQ(reads_again({}, {.store = std::make_shared<OneStore>("another")}), 3u);
  std::string big_endian(kDocument);
  big_endian.replace(big_endian.find(R"({"name": "bytes"})"), 17,
                     R"({"name": "bytes", "configuration": {"endian": "big"}})");
  EXPECT_EQ(reads_again({}, {.document = big_endian}), 3u);
}

TEST_F(KeepingSinkTest, nothing_is_kept_where_a_change_would_not_be_noticed) {
  EXPECT_EQ(reads_again({.keeps_indices = false}, {.keeps_indices = false}), 3u);
  const auto again = [&](bool is_immutable) {
    const auto store = std::make_shared<OneStore>("remote", /*is_remote=*/true, is_immutable);
    return reads_again({.store = store}, {.store = store});
  };
  EXPECT_EQ(again(/*is_immutable=*/false), 3u);  // its objects have no versions
  EXPECT_EQ(again(/*is_immutable=*/true), 0u);
}

TEST_F(KeepingSinkTest, many_chunks_are_placed_by_requests) {
  Keepers keepers;
  for (const std::size_t read : {200, 0}) {
    const auto wanted = chunks(200);
    Task<Job> task = wanted->new_task();
    EXPECT_EQ(keepers.read(wanted, {}), read);
    task.end();
    ASSERT_TRUE(testing::eventually([&] { return wanted->is_settled(); }));
    for (std::size_t c = 0; c < 200; ++c) ASSERT_TRUE(wanted->is_placed(c)) << c;
  }
  EXPECT_EQ(keepers.readers->counters().cache_hits, 200);
  EXPECT_EQ(keepers.readers->counters().cache_misses, 200);
}

class KeptFiles : public SelectionReads {
 protected:
  KeptFiles() { set_times(-std::chrono::hours(1)); }
  void set_times(std::chrono::seconds from_now) {
    for (const auto& file : std::filesystem::directory_iterator(dir_.path()))
      std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now() + from_now);
  }
  SelectionRequest keeping(SelectionRequest request) {
    request.keeps_indices = true;
    request.cache = cache_;
    return request;
  }
  void read_whole() {
    std::ranges::fill(out_, std::uint16_t{0x5555});
    EXPECT_FALSE(read(keeping(whole(std::as_writable_bytes(std::span(out_)))))->failure());
  }
  std::int64_t decoded() const { return readers_->counters().chunks_decoded; }

  std::shared_ptr<ChunkTier> cache_ = a_cache();
};

TEST_F(KeptFiles, are_read_and_decoded_once) {
  for (int i = 0; i < 3; ++i) {
    read_whole();
    expect_whole(out_);
    EXPECT_EQ(decoded(), 20);
  }
  EXPECT_EQ(cache_->counts().hits.chunks, 40);
}

TEST_F(KeptFiles, are_not_those_that_were_just_written) {
  set_times(std::chrono::hours(1));  // later than any read
  for (int i = 1; i <= 2; ++i) {
    read_whole();
    EXPECT_EQ(decoded(), 20 * i);
  }
  EXPECT_EQ(cache_->counts().kept.chunks, 0);
}

TEST_F(KeptFiles, that_are_overwritten_are_read_anew) {
  read_whole();
  const auto file = dir_.path() / "c.0.0";
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).write("\x39\x30", 2);
  std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now() - std::chrono::hours(2));
  for (int i = 0; i < 2; ++i) {
    read_whole();
    EXPECT_EQ(out_[0], 12345);
    EXPECT_EQ(decoded(), 21);
    out_[0] = 0;
    expect_whole(out_);
  }
}

TEST_F(KeptFiles, whose_chunks_are_large_are_read_as_a_whole_for_a_part) {
  testing::write_array(dir_.path() / "large", {512, 512}, {512, 512});
  const auto file = dir_.path() / "large" / "c.0.0";
  std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  for (const bool has_cache : {false, true})
    for (std::int64_t row = 0; row < 3; ++row) {
      SelectionRequest request;
      request.object = one_chunk("[512, 512]");
      request.store = make_file_store((dir_.path() / "large").string(), 8);
      request.out = std::as_writable_bytes(std::span(out_)).first(1024);
      request.items.push_back({"c.0.0", {AxisRuns{{row, 1, 0, 1024, 1}}, AxisRuns{{0, 1, 0, 2, 512}}}});
      EXPECT_FALSE(read(has_cache ? keeping(std::move(request)) : std::move(request))->failure());
      for (std::int64_t i = 0; i < 512; ++i)
        ASSERT_EQ(out_[static_cast<std::size_t>(i)], static_cast<std::uint16_t>(row * 512 + i)) << row;
    }
  EXPECT_EQ(decoded(), 3 + 1);
  EXPECT_EQ(cache_->counts().kept, (ChunkTier::Count{1, 512 * 512 * 2}));
}

}  // namespace
}  // namespace damacy
