// Selection reads into memory of the host.
#include "damacy/single/selection_read.h"

#include <filesystem>
#include <latch>
#include <numeric>

#include <gtest/gtest.h>
#include <unistd.h>

#include "fakes/hung_store.h"
#include "support/selection_reads.h"

namespace damacy {
namespace {

using testing::HungStore;
using testing::SelectionReads;

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
  const auto one = std::make_shared<SelectionRead>(*readers_, whole(std::as_writable_bytes(std::span(out_))),
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

TEST_F(SelectionReads, readers_stop_although_storage_holds_one) {
  const auto store = std::make_shared<HungStore>(make_file_store(dir_.path().string(), 8));
  store->hang(HungStore::Call::read, "c.1.2");
  std::latch ended(1);
  SelectionRequest request = whole(std::as_writable_bytes(std::span(out_)));
  request.store = store;
  const auto one = std::make_shared<SelectionRead>(*readers_, std::move(request), [&] { ended.count_down(); });
  one->start();
  store->wait_until_hung();
  readers_->threads().stop(nullptr);
  ended.wait();
  ASSERT_TRUE(one->failure());
  EXPECT_EQ(one->failure()->status(), Status::shutdown);
}

}  // namespace
}  // namespace damacy
