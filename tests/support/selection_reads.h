// Reads of a small array by selections, on the host or into a device. Element value: its position in the array.
#pragma once

#include <cstdint>
#include <latch>
#include <memory>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "damacy/core/clock.h"
#include "damacy/core/formatted.h"
#include "damacy/single/selection_plan.h"
#include "damacy/single/selection_read.h"
#include "fakes/hung_store.h"
#include "support/tiny_zarr.h"

namespace damacy::testing {

class SelectionReads : public ::testing::Test {
 protected:
  static constexpr std::int64_t kRows = 40, kColumns = 64;

  SelectionReads() { write_array(dir_.path(), {kRows, kColumns}, {8, 16}); }

  static std::shared_ptr<const Array> one_chunk(std::string_view chunk_shape = "[8, 16]") {
    const std::string document =
        formatted(R"({{"zarr_format": 3, "node_type": "array", "data_type": "uint16", "fill_value": 7, )"
                  R"("shape": [40, 64], "chunk_grid": {{"name": "regular", )"
                  R"("configuration": {{"chunk_shape": {}}}}}, "chunk_key_encoding": {{"name": "default", )"
                  R"("configuration": {{"separator": "."}}}}, "codecs": [{{"name": "bytes", )"
                  R"("configuration": {{"endian": "little"}}}}]}})",
                  chunk_shape);
    return stored_array("array", document, 3);
  }

  // The whole array into `out`, row-major.
  SelectionRequest whole(std::span<std::byte> out) {
    SelectionRequest request;
    request.object = one_chunk();
    request.store = make_file_store(dir_.path().string(), 8);
    request.out = out;
    request.fill[0] = std::byte{7};
    for (std::int64_t i = 0; i < kRows / 8; ++i)
      for (std::int64_t j = 0; j < kColumns / 16; ++j)
        request.items.push_back(
            {formatted("c.{}.{}", i, j),
             {AxisRuns{{0, 1, (i * 8 * kColumns + j * 16) * 2, kColumns * 2, 8}}, AxisRuns{{0, 1, 0, 2, 16}}}});
    return request;
  }

  std::shared_ptr<SelectionRead> read(SelectionRequest request) {
    std::latch ended(1);
    auto one = std::make_shared<SelectionRead>(*readers_, std::move(request), [&] { ended.count_down(); });
    one->start();
    ended.wait();
    return one;
  }

  // A read of which one call hangs, until its deadline. On one thread: time passes for no other call.
  std::shared_ptr<SelectionRead> read_past_deadline(SelectionRequest request, HungStore& store) {
    if (!one_by_one_) one_by_one_ = std::make_unique<SelectionReaders>(1, IndexCache(), clock_);
    std::latch ended(1);
    auto one = std::make_shared<SelectionRead>(*one_by_one_, std::move(request), [&] { ended.count_down(); });
    const std::size_t before = store.hung();
    one->start();
    store.wait_until_hung(before + 1);
    one_by_one_->threads().abandon_overdue();
    EXPECT_FALSE(ended.try_wait());
    clock_->advance(std::chrono::seconds(60));
    one_by_one_->threads().abandon_overdue();
    ended.wait();
    return one;
  }
  static void expect_deadline(const SelectionRead& read, std::string_view key) {
    ASSERT_TRUE(read.failure());
    EXPECT_EQ(read.failure()->status(), Status::io);
    EXPECT_EQ(read.failure()->where().reason, "deadline");
    EXPECT_EQ(read.failure()->where().key, key);
    EXPECT_EQ(read.failure()->where().uri, "array");
  }

  static void expect_whole(std::span<const std::uint16_t> values) {
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], i) << i;
  }

  TempDir dir_{"selection-read"};
  const std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>();
  std::unique_ptr<SelectionReaders> readers_ = std::make_unique<SelectionReaders>(2, IndexCache());
  std::unique_ptr<SelectionReaders> one_by_one_;
  std::vector<std::uint16_t> out_ = std::vector<std::uint16_t>(kRows * kColumns, 0xffff);
};

}  // namespace damacy::testing
