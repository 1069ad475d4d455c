// Array::read with the cache of decoded chunks: what later reads do not decode, and which changes they notice.
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "damacy/array.h"
#include "damacy/core/formatted.h"
#include "damacy/device/host_device.h"
#include "damacy/single/process_readers.h"
#include "damacy/single/process_waves.h"
#include "damacy/store/memory_store.h"
#include "support/error_of.h"
#include "support/tiny_zarr.h"

namespace damacy {
namespace {

constexpr std::int64_t kRows = 40, kColumns = 64, kChunks = 20;
using Values = std::vector<std::uint16_t>;

// Files that are an hour old, with elements that are their positions.
class ArrayCache : public ::testing::Test {
 protected:
  ArrayCache() {
    testing::write_array(dir.path(), {kRows, kColumns}, {8, 16});
    for (const auto& file : std::filesystem::directory_iterator(dir.path())) set_age(file, std::chrono::hours(1));
    array = opened();
    set_read_cache(16 << 20);
  }
  ~ArrayCache() override { set_read_cache(0); }

  static void set_age(const std::filesystem::path& file, std::chrono::seconds age) {
    std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now() - age);
  }
  std::shared_ptr<const Array> opened() const {
    return open_array(dir.path().string(), make_file_store(dir.path().string(), 16));
  }
  static ReadCounters& counters() { return process_readers().one_thread_a_core()->counters(); }
  static std::int64_t decoded_by(const std::function<void()>& read) {
    const std::int64_t before = counters().chunks_decoded;
    read();
    return counters().chunks_decoded - before;
  }
  static Values everything() {
    Values all(kRows * kColumns);
    std::iota(all.begin(), all.end(), std::uint16_t{0});
    return all;
  }
  std::int64_t decoded_by_reading_all(const Values& expected = everything()) const {
    return decoded_by([&] { EXPECT_EQ(array->read_as<std::uint16_t>(), expected); });
  }

  testing::TempDir dir{"array-cache"};
  std::shared_ptr<const Array> array;
};

TEST_F(ArrayCache, is_off_at_first) {
  set_read_cache(0);
  const std::int64_t looked_up = counters().cache_hits + counters().cache_misses;
  for (int i = 0; i < 2; ++i) EXPECT_EQ(decoded_by_reading_all(), kChunks);
  EXPECT_EQ(counters().cache_hits + counters().cache_misses, looked_up);
  EXPECT_EQ(process_readers().cache_bytes(), 0u);
}

TEST_F(ArrayCache, spares_every_kind_of_later_read_from_decoding) {
  EXPECT_EQ(decoded_by_reading_all(), kChunks);
  EXPECT_EQ(decoded_by_reading_all(), 0);
  const std::vector<std::function<void()>> reads{
      [&] {
        Values part(6);
        array->read({{7, 15}, {9, 18}}, std::as_writable_bytes(std::span(part)));
        EXPECT_EQ(part, (Values{463, 464, 465, 527, 528, 529}));
      },
      [&] {
        const auto turned = array->read_as<double>(Selection{std::int64_t{-1}, Slice{.step = -16}});
        EXPECT_EQ(turned, (std::vector<double>{2559, 2543, 2527, 2511}));
      },
      [&] {
        const PointSelection points({{0, 39, 20}, {63, 0, 5}});
        EXPECT_EQ(array->read_as<std::uint16_t>(points), (Values{63, 2496, 1285}));
      },
      [&] {
        Values row(kColumns);
        auto read = begin_read(array, Selection{std::int64_t{8}}, ReadOutput::host(std::span(row)));
        read.get();
        EXPECT_EQ(row[63], 575);
      },
  };
  for (std::size_t i = 0; i < reads.size(); ++i) {
    const std::int64_t hits = counters().cache_hits;
    EXPECT_EQ(decoded_by(reads[i]), 0) << i;
    EXPECT_GT(counters().cache_hits, hits) << i;
  }
}

TEST_F(ArrayCache, serves_another_array_object_of_the_same_files) {
  EXPECT_EQ(decoded_by_reading_all(), kChunks);
  array = opened();
  EXPECT_EQ(decoded_by_reading_all(), 0);
}

TEST_F(ArrayCache, is_not_asked_for_reads_into_a_device) {
  const auto waves = process_waves().of_lazy_host(1024);
  const HostBuffer memory(waves->device().device_memory(), kRows * kColumns * 2);
  const auto out = ReadOutput::device(memory.data(), kRows * kColumns * 2);
  for (int i = 0; i < 2; ++i) {
    const std::int64_t looked_up = counters().cache_hits + counters().cache_misses;
    begin_read(array, Selection{}.of(array->shape()), out, waves.get()).get();
    EXPECT_EQ(counters().cache_hits + counters().cache_misses, looked_up);
  }
}

TEST_F(ArrayCache, does_not_serve_a_file_that_was_overwritten) {
  EXPECT_EQ(decoded_by_reading_all(), kChunks);
  const auto file = dir.path() / "c.0.0";
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).write("\x39\x30", 2);
  set_age(file, std::chrono::hours(2));
  Values changed = everything();
  changed[0] = 12345;
  EXPECT_EQ(decoded_by_reading_all(changed), 1);
  EXPECT_EQ(decoded_by_reading_all(changed), 0);
}

TEST_F(ArrayCache, keeps_no_file_that_was_just_written) {
  set_age(dir.path() / "c.0.0", -std::chrono::hours(1));  // later than any read
  EXPECT_EQ(decoded_by_reading_all(), kChunks);
  EXPECT_EQ(decoded_by_reading_all(), 1);
}

TEST_F(ArrayCache, does_not_hide_a_chunk_that_was_missing) {
  const auto file = dir.path() / "c.4.3";
  std::filesystem::rename(file, dir.path() / "away");
  Values gap = everything();
  for (std::size_t row = 32; row < 40; ++row)
    for (std::size_t column = 48; column < 64; ++column) gap[row * kColumns + column] = 7;
  EXPECT_EQ(decoded_by_reading_all(gap), kChunks - 1);
  std::filesystem::rename(dir.path() / "away", file);
  EXPECT_EQ(decoded_by_reading_all(), 1);
}

TEST_F(ArrayCache, belongs_to_one_version_of_the_document) {
  EXPECT_EQ(decoded_by_reading_all(), kChunks);
  const auto document = dir.path() / "zarr.json";
  std::ifstream in(document);
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const auto at = text.find("little");
  ASSERT_NE(at, std::string::npos);
  std::ofstream(document) << text.replace(at, 6, "big");
  const auto swapped = opened();
  Values read;
  EXPECT_EQ(decoded_by([&] { read = swapped->read_as<std::uint16_t>(); }), kChunks);
  EXPECT_EQ(read[1], 256);
  EXPECT_EQ(decoded_by_reading_all(), 0);  // of the array as it was opened
}

// An index that has fewer entries than the document says.
TEST_F(ArrayCache, keeps_an_index_of_a_shard_for_the_document_that_it_was_read_by) {
  const auto store = std::make_shared<MemoryStore>("a");
  const auto with_chunks_of = [&](int elements) {
    store->put("zarr.json", formatted(R"({{"zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "uint8",
      "fill_value": 9, "chunk_grid": {{"name": "regular", "configuration": {{"chunk_shape": [4]}}}},
      "chunk_key_encoding": {{"name": "default"}},
      "codecs": [{{"name": "sharding_indexed", "configuration": {{"chunk_shape": [{}], "index_location": "end",
        "codecs": [{{"name": "bytes"}}],
        "index_codecs": [{{"name": "bytes", "configuration": {{"endian": "little"}}}}]}}}}]}})",
                                      elements));
    return open_array("a", store);
  };
  const std::string entry = std::string(8, '\0') + std::string("\4\0\0\0\0\0\0\0", 8);
  store->put("c/0", "\1\2\3\4" + entry);
  for (int i = 0; i < 2; ++i) {
    const std::int64_t hits = counters().index_hits;
    EXPECT_EQ(with_chunks_of(4)->read_as<std::uint8_t>(), (std::vector<std::uint8_t>{1, 2, 3, 4}));
    EXPECT_EQ(counters().index_hits, hits);  // the document was written anew
  }
  const auto array_of_four = open_array("a", store);
  const std::int64_t hits = counters().index_hits;
  EXPECT_EQ(array_of_four->read_as<std::uint8_t>(), (std::vector<std::uint8_t>{1, 2, 3, 4}));
  EXPECT_EQ(counters().index_hits, hits + 1);
  const auto array_of_ones = with_chunks_of(1);
  EXPECT_EQ(error_of([&] { static_cast<void>(array_of_ones->read_as<std::uint8_t>()); }).status(), Status::io);
  EXPECT_EQ(counters().index_hits, hits + 1);
}

TEST_F(ArrayCache, is_unharmed_by_reads_that_are_cancelled) {
  for (int round = 0; round < 20; ++round) {
    set_read_cache((16 << 20) + static_cast<std::uint64_t>(round));  // an empty one
    Values out(kRows * kColumns);
    auto read = begin_read(array, Selection{}, ReadOutput::host(std::span(out)));
    read.cancel();
    const auto error = failure_of([&] { read.get(); });
    EXPECT_TRUE(!error || error->status() == Status::shutdown);
    decoded_by_reading_all();
    EXPECT_EQ(decoded_by_reading_all(), 0);
  }
}

TEST_F(ArrayCache, starts_empty_when_its_size_changes) {
  EXPECT_EQ(decoded_by_reading_all(), kChunks);
  set_read_cache(8 << 20);
  EXPECT_EQ(decoded_by_reading_all(), kChunks);
  EXPECT_EQ(decoded_by_reading_all(), 0);
  EXPECT_EQ(read_cache_setting(), 8u << 20);
}

TEST_F(ArrayCache, is_made_anew_after_a_size_for_which_there_was_no_memory) {
  EXPECT_EQ(decoded_by_reading_all(), kChunks);
  EXPECT_EQ(error_of([] { set_read_cache(std::uint64_t{1} << 62); }).status(), Status::oom);
  EXPECT_EQ(read_cache_setting(), 16u << 20);
  EXPECT_EQ(decoded_by_reading_all(), kChunks);
  EXPECT_EQ(decoded_by_reading_all(), 0);
}

TEST_F(ArrayCache, is_the_one_that_another_size_has_made) {
  const auto other = process_readers().cache_of(8 << 20);  // as reads of zarr-python do
  EXPECT_EQ(decoded_by_reading_all(), kChunks);
  EXPECT_EQ(decoded_by_reading_all(), 0);
  EXPECT_EQ(process_readers().cache_of(8 << 20), other);
  EXPECT_EQ(other->counts().kept.chunks, kChunks);
}

}  // namespace
}  // namespace damacy
