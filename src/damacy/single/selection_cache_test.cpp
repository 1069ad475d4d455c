// What single reads keep of decoded chunks, which later reads find them, and which changes they notice.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include <gtest/gtest.h>

#include "damacy/cache/chunk_cache.h"
#include "support/selection_reads.h"

namespace damacy {
namespace {

using testing::SelectionReads;

std::shared_ptr<ChunkTier> a_cache() {
  return std::make_shared<ChunkCache>(16 << 20, std::make_shared<PageAlloc>());
}

// All its objects have these bytes and one stamp, of a long time ago.
class OneStore final : public Store {
 public:
  struct Says {
    std::string identity = "store";
    bool is_remote = false, is_immutable = false;
    std::string version = {};
  };
  OneStore(std::string bytes, Says says) : bytes_(std::move(bytes)), says_(std::move(says)) {}
  std::string name() const override { return says_.identity; }
  std::string cache_identity() const override { return says_.identity; }
  bool is_remote() const noexcept override { return says_.is_remote; }
  bool is_immutable() const noexcept override { return says_.is_immutable; }
  std::shared_ptr<Object> open(std::string_view) override { return std::make_shared<OneObject>(bytes_, says_.version); }
  std::optional<Stamp> stamp(std::string_view) override { return stamp_of(bytes_); }
  std::vector<Entry> list(std::string_view) override { return {}; }

 private:
  static Stamp stamp_of(const std::string& bytes) { return {1, 2, bytes.size(), 3}; }
  class OneObject final : public Object {
   public:
    OneObject(std::string bytes, std::string version)
        : bytes_(std::move(bytes)), version_(std::move(version)), stamp_(stamp_of(bytes_)) {}
    const Stamp& stamp() const noexcept override { return stamp_; }
    std::string version() const override { return version_; }
    void read_exact(std::uint64_t offset, std::span<std::byte> dst) override {
      std::memcpy(dst.data(), bytes_.data() + offset, dst.size());
    }

   private:
    const std::string bytes_, version_;
    const Stamp stamp_;
  };

  const std::string bytes_;
  const Says says_;
};

// Reads of a row of bytes, in chunks of 4, all in one shard.
class KeptReads : public SelectionReads {
 protected:
  static constexpr std::int64_t kChunks = 200, kBytes = 4 * kChunks;
  struct With {
    OneStore::Says store{};
    std::string key = "c/0";
    std::string fill = "0";  // of the document
    bool keeps_indices = true;
  };

  static std::string object() {
    std::string bytes;
    for (std::int64_t i = 0; i < kBytes; ++i) bytes += static_cast<char>(i % 251);
    for (std::uint64_t c = 0; c < kChunks; ++c)
      for (const std::uint64_t number : {4 * c, std::uint64_t{4}})
        bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
    return bytes;
  }
  // How many of the chunks it decodes.
  std::int64_t decodes(const With& with, std::int64_t chunks = 3) {
    SelectionRequest request;
    request.object = stored_array(
        "array",
        formatted(R"({{"zarr_format": 3, "node_type": "array", "data_type": "uint8", "fill_value": {}, "shape": [{}],
            "chunk_grid": {{"name": "regular", "configuration": {{"chunk_shape": [{}]}}}},
            "chunk_key_encoding": {{"name": "default"}},
            "codecs": [{{"name": "sharding_indexed", "configuration": {{"chunk_shape": [4],
                       "codecs": [{{"name": "bytes"}}], "index_codecs": [{{"name": "bytes",
                       "configuration": {{"endian": "little"}}}}], "index_location": "end"}}}}]}})",
                  with.fill, kBytes, kBytes),
        3);
    request.store = std::make_shared<OneStore>(object(), with.store);
    request.keeps_indices = with.keeps_indices;
    request.cache = cache_;
    std::vector<std::byte> out(static_cast<std::size_t>(4 * chunks));
    request.out = out;
    request.items.push_back({with.key, {AxisRuns{{0, 1, 0, 1, 4 * chunks}}}});
    const std::int64_t before = readers_->counters().chunks_decoded;
    const auto done = read(std::move(request));
    EXPECT_FALSE(done->failure()) << done->failure()->what();
    for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], static_cast<std::byte>(i % 251)) << i;
    return readers_->counters().chunks_decoded - before;
  }
  // Of three chunks, by a later read.
  std::int64_t decodes_again(const With& first, const With& second) {
    cache_ = a_cache();
    EXPECT_EQ(decodes(first), 3);
    return decodes(second);
  }

  std::shared_ptr<ChunkTier> cache_ = a_cache();
};

TEST_F(KeptReads, are_found_by_later_reads_of_the_same_document_store_and_object_only) {
  EXPECT_EQ(decodes_again({}, {}), 0);
  EXPECT_EQ(decodes_again({}, {.key = "c/1"}), 3);
  EXPECT_EQ(decodes_again({}, {.store = {.identity = "another"}}), 3);
  EXPECT_EQ(decodes_again({}, {.fill = "1"}), 3);
}

TEST_F(KeptReads, are_those_of_which_a_change_would_be_noticed) {
  EXPECT_EQ(decodes_again({.keeps_indices = false}, {.keeps_indices = false}), 3);
  const auto again = [&](const OneStore::Says& store) { return decodes_again({.store = store}, {.store = store}); };
  EXPECT_EQ(again({.is_remote = true}), 3);
  EXPECT_EQ(readers_->counters().cache_misses, 0);
  EXPECT_EQ(again({.is_remote = true, .is_immutable = true}), 0);
  EXPECT_EQ(again({.is_remote = true, .version = "1"}), 0);
}

TEST_F(KeptReads, of_one_object_are_placed_by_several_requests_if_they_are_many) {
  EXPECT_EQ(decodes({}, kChunks), kChunks);
  EXPECT_EQ(decodes({}, kChunks), 0);
  EXPECT_EQ(readers_->counters().cache_hits, kChunks);
  EXPECT_EQ(readers_->counters().cache_misses, kChunks);
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
