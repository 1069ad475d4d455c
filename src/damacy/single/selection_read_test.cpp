// Selection reads on the host and through devices made of host memory, eager and lazy: on the lazy one a missing wait,
// or memory used again too early, gives wrong bytes.
#include "damacy/single/selection_read.h"

#include <filesystem>
#include <latch>
#include <numeric>

#include <gtest/gtest.h>
#include <unistd.h>

#include "damacy/core/text.h"
#include "damacy/device/host_device.h"
#include "damacy/single/object_chunks.h"
#include "fakes/hung_store.h"
#include "support/tiny_zarr.h"

namespace damacy {
namespace {

using testing::HungStore;
using testing::TempDir;
using testing::write_array;

constexpr std::int64_t kRows = 40, kColumns = 64;

class SelectionReads : public ::testing::Test {
 protected:
  SelectionReads() { write_array(dir_.path(), {kRows, kColumns}, {8, 16}); }

  static std::shared_ptr<const Array> one_chunk(std::string_view chunk_shape = "[8, 16]") {
    ArrayMetadata metadata = parse_v3_array(text(
        R"({"zarr_format": 3, "node_type": "array", "data_type": "uint16", "fill_value": 7, "shape": [40, 64],
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": )",
        chunk_shape, R"(}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]})"));
    metadata.shape = metadata.shard_shape;
    return std::make_shared<const Array>("array", nullptr, "", "", Stamp{}, std::move(metadata),
                                         std::vector<std::string>{});
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
            {text("c.", i, ".", j),
             {AxisRuns{{0, 1, (i * 8 * kColumns + j * 16) * 2, kColumns * 2, 8}}, AxisRuns{{0, 1, 0, 2, 16}}}});
    return request;
  }

  std::shared_ptr<SelectionRead> read(SelectionRequest request) {
    std::latch ended(1);
    auto one = std::make_shared<SelectionRead>(*workers_, std::move(request), [&] { ended.count_down(); });
    one->start();
    ended.wait();
    return one;
  }

  // A read of which one call hangs, until its deadline. On one thread: time passes for no other call.
  std::shared_ptr<SelectionRead> read_past_deadline(SelectionRequest request, HungStore& store) {
    if (!one_by_one_) one_by_one_ = std::make_unique<ReadWorkers>(1, IndexCache(), clock_);
    std::latch ended(1);
    auto one = std::make_shared<SelectionRead>(*one_by_one_, std::move(request), [&] { ended.count_down(); });
    const std::size_t before = store.hung();
    one->start();
    store.wait_until_hung(before + 1);
    one_by_one_->abandon_overdue();
    EXPECT_FALSE(ended.try_wait());
    clock_->advance(std::chrono::seconds(60));
    one_by_one_->abandon_overdue();
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
  std::unique_ptr<ReadWorkers> workers_ = std::make_unique<ReadWorkers>(2, IndexCache());
  std::unique_ptr<ReadWorkers> one_by_one_;
  std::vector<std::uint16_t> out_ = std::vector<std::uint16_t>(kRows * kColumns, 0xffff);
};

TEST_F(SelectionReads, place_every_element_on_the_host) {
  const auto done = read(whole(std::as_writable_bytes(std::span(out_))));
  EXPECT_FALSE(done->failure());
  expect_whole(out_);
}

TEST_F(SelectionReads, fill_what_is_missing_and_say_so) {
  std::filesystem::remove(dir_.path() / "c.1.2");
  const auto done = read(whole(std::as_writable_bytes(std::span(out_))));
  EXPECT_FALSE(done->failure());
  EXPECT_EQ(done->missing()[1 * 4 + 2], 1);
  EXPECT_EQ(std::accumulate(done->missing().begin(), done->missing().end(), 0), 1);
  EXPECT_EQ(out_[8 * kColumns + 32], 7);
}

TEST_F(SelectionReads, name_the_chunk_that_fails) {
  std::filesystem::resize_file(dir_.path() / "c.2.1", 100);
  const auto done = read(whole(std::as_writable_bytes(std::span(out_))));
  ASSERT_TRUE(done->failure());
  EXPECT_EQ(done->failure()->status(), Status::io);
  EXPECT_EQ(done->failure()->where().key, "c.2.1");
}

TEST_F(SelectionReads, end_early_when_cancelled) {
  std::latch ended(1);
  const auto one = std::make_shared<SelectionRead>(*workers_, whole(std::as_writable_bytes(std::span(out_))),
                                                   [&] { ended.count_down(); });
  one->cancel();
  one->start();
  ended.wait();
  ASSERT_TRUE(one->failure());
  EXPECT_EQ(one->failure()->status(), Status::shutdown);
}

TEST_F(SelectionReads, end_at_the_deadline_of_any_call_and_write_nothing_later) {
  const auto store = std::make_shared<HungStore>(make_file_store(dir_.path().string(), 8));
  for (const auto call : {HungStore::Call::open, HungStore::Call::read}) {
    SelectionRequest request = whole(std::as_writable_bytes(std::span(out_)));
    request.store = store;
    store->hang(call, "c.1.2", 1);
    expect_deadline(*read_past_deadline(std::move(request), *store), "c.1.2");
    std::ranges::fill(out_, std::uint16_t{0x5555});
    store->let_go();
    EXPECT_TRUE(std::ranges::all_of(out_, [](std::uint16_t value) { return value == 0x5555; }));
    request = whole(std::as_writable_bytes(std::span(out_)));
    request.store = store;
    EXPECT_FALSE(read(std::move(request))->failure());
    expect_whole(out_);
  }
}

TEST_F(SelectionReads, more_of_them_may_hang_than_there_are_threads) {
  const auto store = std::make_shared<HungStore>(make_file_store(dir_.path().string(), 8));
  store->hang(HungStore::Call::open, "c.0.0", 4);
  for (int i = 0; i < 4; ++i) {
    SelectionRequest request = whole(std::as_writable_bytes(std::span(out_)));
    request.store = store;
    expect_deadline(*read_past_deadline(std::move(request), *store), "c.0.0");
  }
  EXPECT_FALSE(read(whole(std::as_writable_bytes(std::span(out_))))->failure());
}

TEST_F(SelectionReads, memory_for_big_chunks_stays_while_storage_may_write_to_it) {
  std::filesystem::resize_file(dir_.path() / "c.0.0", 80 << 20);
  const auto store = std::make_shared<HungStore>(make_file_store(dir_.path().string(), 8));
  store->hang(HungStore::Call::read, "c.0.0");
  SelectionRequest request;
  request.object = one_chunk("[40, 1048576]");
  request.store = store;
  request.out = std::as_writable_bytes(std::span(out_));
  request.items.push_back({"c.0.0", {AxisRuns{{0, 1, 0, 2, 1}}, AxisRuns{{0, 1, 0, 2, 16}}}});
  expect_deadline(*read_past_deadline(std::move(request), *store), "c.0.0");
  store->let_go();  // writes
}

TEST_F(SelectionReads, go_on_when_hung_ones_keep_the_common_memory) {
  const auto store = std::make_shared<HungStore>(make_file_store(dir_.path().string(), 8));
  std::filesystem::resize_file(dir_.path() / "c.0.0", 60 << 20);
  const auto big = [&] {
    SelectionRequest request;
    request.object = one_chunk("[40, 786432]");
    request.store = store;
    request.out = std::as_writable_bytes(std::span(out_));
    request.items.push_back({"c.0.0", {AxisRuns{{0, 1, 0, 2, 1}}, AxisRuns{{0, 1, 0, 2, 16}}}});
    return request;
  };
  store->hang(HungStore::Call::read, "c.0.0", 4);
  for (int i = 0; i < 4; ++i) expect_deadline(*read_past_deadline(big(), *store), "c.0.0");
  std::latch ended(1);
  const auto one = std::make_shared<SelectionRead>(*one_by_one_, big(), [&] { ended.count_down(); });
  one->start();
  ended.wait();
  EXPECT_FALSE(one->failure()) << one->failure()->what();
  EXPECT_EQ(out_[3], 3);
  store->let_go();
}

TEST_F(SelectionReads, workers_stop_although_storage_holds_one) {
  const auto store = std::make_shared<HungStore>(make_file_store(dir_.path().string(), 8));
  store->hang(HungStore::Call::read, "c.1.2");
  std::latch ended(1);
  SelectionRequest request = whole(std::as_writable_bytes(std::span(out_)));
  request.store = store;
  const auto one = std::make_shared<SelectionRead>(*workers_, std::move(request), [&] { ended.count_down(); });
  one->start();
  store->wait_until_hung();
  workers_->stop();
  ended.wait();
  ASSERT_TRUE(one->failure());
  EXPECT_EQ(one->failure()->status(), Status::shutdown);
}

TEST_F(SelectionReads, coordinates_are_read_from_keys) {
  EXPECT_EQ(coordinates_in_key(one_chunk()->metadata(), "some/array/c.12.3"), (Dims{12, 3}));
  EXPECT_FALSE(coordinates_in_key(one_chunk()->metadata(), "some/array/c.x.3"));
}

class ThroughDevices : public SelectionReads, public ::testing::WithParamInterface<HostOrder::Kind> {
 protected:
  std::shared_ptr<DeviceReads> reads(std::size_t slab) const {
    return std::make_shared<DeviceReads>(
        make_host_device({.kind = GetParam(), .seed = 3}), make_host_stream_decoder(), make_host_copier(),
        DeviceReads::Sizes{.slots = 2, .slab = slab, .images = 1 << 20, .destination = 1 << 16, .scratch = 1 << 16});
  }
};

TEST_P(ThroughDevices, every_element_arrives_in_waves_of_a_few_chunks) {
  SelectionRequest request = whole(std::as_writable_bytes(std::span(out_)));
  request.device = reads(/*slab=*/1024);
  std::filesystem::remove(dir_.path() / "c.4.3");
  const auto on_device = request.device;
  const auto done = read(std::move(request));
  ASSERT_FALSE(done->failure()) << done->failure()->what();
  for (std::size_t i = 0; i < out_.size(); ++i) {
    const bool is_missing = i / kColumns >= 32 && i % kColumns >= 48;
    ASSERT_EQ(out_[i], is_missing ? 7 : i) << i;
  }
  EXPECT_GE(on_device->counters().h2d_copies, 5);
}

TEST_P(ThroughDevices, a_chunk_larger_than_a_slab_has_a_wave_of_its_own) {
  SelectionRequest request = whole(std::as_writable_bytes(std::span(out_)));
  request.device = reads(/*slab=*/128);
  const auto done = read(std::move(request));
  ASSERT_FALSE(done->failure()) << done->failure()->what();
  expect_whole(out_);
}

TEST_P(ThroughDevices, reads_take_turns) {
  const auto device = reads(1024);
  std::vector<std::vector<std::uint16_t>> outs(6, std::vector<std::uint16_t>(out_.size()));
  std::latch ended(6);
  std::vector<std::shared_ptr<SelectionRead>> all;
  for (auto& out : outs) {
    SelectionRequest request = whole(std::as_writable_bytes(std::span(out)));
    request.device = device;
    all.push_back(std::make_shared<SelectionRead>(*workers_, std::move(request), [&] { ended.count_down(); }));
    all.back()->start();
  }
  ended.wait();
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_FALSE(all[i]->failure());
    expect_whole(outs[i]);
  }
}

TEST_P(ThroughDevices, a_call_without_an_answer_ends_the_read_and_its_turn) {
  const auto store = std::make_shared<HungStore>(make_file_store(dir_.path().string(), 8));
  store->hang(HungStore::Call::read, "c.1.2", 1);
  SelectionRequest request = whole(std::as_writable_bytes(std::span(out_)));
  request.store = store;
  const auto device = request.device = reads(1024);
  expect_deadline(*read_past_deadline(std::move(request), *store), "c.1.2");
  request = whole(std::as_writable_bytes(std::span(out_)));
  request.device = device;
  EXPECT_FALSE(read(std::move(request))->failure());
  expect_whole(out_);
}

INSTANTIATE_TEST_SUITE_P(Devices, ThroughDevices,
                         ::testing::Values(HostOrder::Kind::eager, HostOrder::Kind::lazy, HostOrder::Kind::random));

}  // namespace
}  // namespace damacy
