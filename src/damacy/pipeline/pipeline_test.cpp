#include "damacy/pipeline/pipeline.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <ranges>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/log.h"
#include "damacy/device/dlpack_abi.h"
#include "damacy/pipeline/environment.h"
#include "fakes/failing_alloc.h"
#include "support/error_of.h"
#include "support/tiny_zarr.h"

namespace damacy {
namespace {

using testing::TempDir;
using testing::write_array;

Config small_config(std::int64_t batch_size) {
  Config config;
  config.batch_size = batch_size;
  config.host_buffer_bytes = config.device_buffer_bytes = 16 << 20;
  config.device.kind = DeviceChoice::Kind::cpu;
  config.dtype = Dtype::u16;
  config.n_io_threads = 2;
  return config;
}

class OneArray : public ::testing::Test {
 protected:
  OneArray() { write_array(root(), {20, 33}, {8, 16}); }
  std::filesystem::path root() const { return dir_.path() / "a.zarr"; }
  Sample crop(std::int64_t row, std::int64_t column) const {
    return {root().string(), {{row, row + 5}, {column, column + 7}}};
  }
  static void expect_row(const Batch& batch, std::size_t row, const Sample& sample) {
    const auto* values = reinterpret_cast<const std::uint16_t*>(batch.bytes().data()) + row * 35;
    for (std::int64_t i = 0; i < 5; ++i)
      for (std::int64_t j = 0; j < 7; ++j)
        ASSERT_EQ(values[i * 7 + j], (sample.aabb[0].start + i) * 33 + sample.aabb[1].start + j);
  }
  TempDir dir_{"pipeline"};
};

TEST_F(OneArray, batches_are_the_boxes_in_push_order) {
  Pipeline pipeline(small_config(3));
  std::vector<Sample> samples;
  for (int i = 0; i < 12; ++i) samples.push_back(crop(i, (i * 5) % 26));
  pipeline.push(samples);
  for (std::size_t b = 0; b < 4; ++b) {
    const Batch batch = pipeline.pop();
    EXPECT_EQ(batch.batch_id(), static_cast<std::int64_t>(b));
    for (std::size_t row = 0; row < 3; ++row) expect_row(batch, row, samples[b * 3 + row]);
  }
  EXPECT_FALSE(pipeline.pending());
}

TEST_F(OneArray, samples_come_from_any_range_and_from_callables) {
  Pipeline pipeline(small_config(2));
  const std::array<Sample, 2> array{crop(0, 0), crop(1, 1)};
  pipeline.push(array);
  pipeline.push(std::views::iota(2, 4) | std::views::transform([&](int i) { return crop(i, i); }));
  int next = 4;
  pipeline.push([&]() -> std::optional<Sample> {
    if (next == 6) return std::nullopt;
    ++next;
    return crop(next - 1, next - 1);
  });
  for (std::int64_t b = 0; b < 3; ++b) {
    const Batch batch = pipeline.pop();
    for (std::int64_t row = 0; row < 2; ++row)
      expect_row(batch, static_cast<std::size_t>(row), crop(2 * b + row, 2 * b + row));
  }
}

TEST_F(OneArray, a_flush_ends_the_run_with_a_short_batch) {
  Pipeline pipeline(small_config(4));
  pipeline.push({crop(0, 0), crop(1, 1), crop(2, 2)});
  pipeline.flush();
  pipeline.flush();
  const Batch batch = pipeline.pop();
  EXPECT_EQ(batch.info().shape, (Dims{3, 5, 7}));
  EXPECT_EQ(batch.sample_indices(), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(pipeline.stats().batches_truncated, 1);
}

TEST_F(OneArray, a_sample_that_ends_its_batch_makes_it_short_at_once) {
  Pipeline pipeline(small_config(2));
  std::vector<Sample> samples{crop(0, 0), crop(1, 1), crop(2, 2), crop(3, 3), crop(4, 4)};
  samples[2].ends_batch = true;
  pipeline.push(samples);
  EXPECT_EQ(pipeline.pop().sample_indices(), (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(pipeline.pop().sample_indices(), (std::vector<std::int64_t>{2}));
  const Batch behind = pipeline.pop();
  EXPECT_EQ(behind.sample_indices(), (std::vector<std::int64_t>{3, 4}));
  expect_row(behind, 1, samples[4]);
  EXPECT_EQ(pipeline.stats().batches_truncated, 1);
}

TEST_F(OneArray, samples_of_arrays_that_cannot_be_opened_fail_like_others) {
  const auto damaged = dir_.path() / "damaged.zarr";
  write_array(damaged, {20, 33}, {8, 16});
  std::ofstream(damaged / "zarr.json") << "{";
  const auto at = [](const std::filesystem::path& root) { return Sample{root.string(), {{0, 5}, {0, 7}}}; };
  const std::vector<Sample> samples{at(damaged), crop(0, 0), crop(1, 1), at(dir_.path() / "removed.zarr")};

  Config config = small_config(2);
  config.on_error = OnError::fill;
  Pipeline filling(config);
  filling.push(samples);
  for (const std::size_t good : {1u, 2u}) {
    const Batch batch = filling.pop();
    const std::size_t row = good % 2;
    EXPECT_EQ(batch.valid(), (std::vector<bool>{row == 0, row == 1}));
    expect_row(batch, row, samples[good]);
    const auto lost = batch.bytes().subspan((1 - row) * 70, 70);
    EXPECT_TRUE(std::ranges::all_of(lost, [](std::byte byte) { return byte == std::byte{0}; }));
  }
  EXPECT_EQ(filling.stats().samples_filled, 2);

  config.on_error = OnError::skip;
  Pipeline skipping(config);
  skipping.push(samples);
  EXPECT_EQ(skipping.pop().sample_indices(), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(skipping.pop().sample_indices(), (std::vector<std::int64_t>{2}));
  EXPECT_EQ(skipping.stats().samples_skipped, 2);

  Pipeline raising(small_config(2));
  EXPECT_EQ(error_of([&] { raising.push(samples); }).status(), Status::decode);
}

TEST_F(OneArray, a_source_of_which_nothing_can_be_opened_is_an_error) {
  const Sample lost{(dir_.path() / "mistyped.zarr").string(), {{0, 5}, {0, 7}}};
  for (const OnError on_error : {OnError::skip, OnError::fill}) {
    Config config = small_config(2);
    config.on_error = on_error;
    Pipeline one(config);
    const Error error = error_of([&] { one.push(std::vector<Sample>{lost}); });
    EXPECT_EQ(error.status(), Status::notfound);
    EXPECT_EQ(error.where().sample_index, 0);
    EXPECT_EQ(error.where().what, "push");
    Pipeline good(config);
    good.push(std::vector<Sample>{lost, crop(0, 0)});
    good.push(std::vector<Sample>(4, lost));
  }
}

TEST_F(OneArray, an_endless_source_of_which_nothing_can_be_opened_ends) {
  Config config = small_config(512);
  config.on_error = OnError::skip;
  Pipeline pipeline(config);
  const Error error = error_of([&] {
    pipeline.push(std::vector<Sample>((1 << 16) + 1000, {(dir_.path() / "mistyped.zarr").string(), {{0, 5}, {0, 7}}}));
    for (;;) static_cast<void>(pipeline.pop());
  });
  EXPECT_EQ(error.status(), Status::notfound);
  EXPECT_EQ(error.where().sample_index, 1 << 16);
}

TEST_F(OneArray, an_unsupported_array_is_an_error_whatever_on_error_says) {
  const auto unsupported = dir_.path() / "unsupported.zarr";
  write_array(unsupported, {20, 33}, {8, 16});
  std::ifstream document(unsupported / "zarr.json");
  std::string text{std::istreambuf_iterator<char>(document), {}};
  text.replace(text.find("uint16"), 6, "uint17");
  std::ofstream(unsupported / "zarr.json") << text;
  Config config = small_config(2);
  config.on_error = OnError::fill;
  Pipeline pipeline(config);
  const std::vector<Sample> samples{crop(0, 0), Sample{unsupported.string(), {{0, 5}, {0, 7}}}};
  EXPECT_EQ(error_of([&] { pipeline.push(samples); }).kind(), ErrorKind::unsupported_format);
}

TEST_F(OneArray, a_batch_gives_back_what_its_samples_were_made_from) {
  std::vector<std::weak_ptr<const void>> given;
  {
    Pipeline pipeline(small_config(2));
    std::vector<Sample> samples{crop(0, 0), crop(1, 1), crop(2, 2), crop(3, 3), crop(4, 4)};
    for (Sample& sample : samples) given.push_back(sample.origin = std::make_shared<int>(0));
    pipeline.push(std::move(samples));
    pipeline.pop();
    Batch batch = pipeline.pop();
    pipeline.close();
    batch.release();
    ASSERT_EQ(batch.origins().size(), 2);
    EXPECT_EQ(batch.origins()[0], given[2].lock());
    EXPECT_EQ(batch.origins()[1], given[3].lock());
  }
  for (const auto& origin : given) EXPECT_TRUE(origin.expired());
}

TEST_F(OneArray, nothing_to_pop_is_said_at_once) {
  Pipeline pipeline(small_config(4));
  pipeline.push({crop(0, 0)});
  try {
    pipeline.pop();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::again);
    EXPECT_NE(error.message().find("1 samples"), std::string::npos);
  }
}

TEST_F(OneArray, held_slots_are_named) {
  Config config = small_config(1);
  config.n_batches = 1;
  Pipeline pipeline(config);
  pipeline.push({crop(0, 0), crop(1, 1)});
  Batch first = pipeline.pop();
  EXPECT_EQ(pipeline.try_pop().has_value(), false);
  first.release();
  expect_row(pipeline.pop(), 0, crop(1, 1));
}

// Refuses on request.
class RefusingAlloc final : public Alloc {
 public:
  std::byte* take(std::size_t bytes) override {
    if (refuse) throw Error(Status::oom, formatted("no memory for a buffer of {} bytes", bytes), "memory");
    return pages_.take(bytes);
  }
  void give(std::byte* memory, std::size_t bytes) noexcept override { pages_.give(memory, bytes); }
  std::atomic<bool> refuse = false;

 private:
  PageAlloc pages_;
};

TEST_F(OneArray, a_slot_that_cannot_be_added_counts_as_the_cap_and_nothing_is_lost) {
  Config config = small_config(1);
  config.n_batches = 1;
  config.keep_bytes = 1 << 20;
  const auto alloc = std::make_shared<RefusingAlloc>();
  PipelineEnvironment around;
  around.alloc = alloc;
  Pipeline pipeline(config, std::move(around));
  pipeline.push({crop(0, 0), crop(1, 1), crop(2, 2), crop(3, 3)});
  const Batch first = pipeline.pop();
  alloc->refuse = true;
  const Error error = error_of([&] { pipeline.pop(); });
  EXPECT_EQ(error.where().reason, "held");
  EXPECT_EQ(error.message(),
            "every slot is held by the consumer: 1 slots and 0 added ones (keep_bytes 1048576); no memory for another "
            "one: no memory for a buffer of 256 bytes: drop batches 0");
  EXPECT_EQ(pipeline.stats().kept_bytes_committed, 0);
  alloc->refuse = false;
  const Batch second = pipeline.pop();
  expect_row(first, 0, crop(0, 0));
  expect_row(second, 0, crop(1, 1));
  EXPECT_EQ(pipeline.stats().slots_added, 1);
  EXPECT_EQ(pipeline.stats().kept_bytes_committed, 256);
}

// Every pop tries again, as memory may be there by then.
TEST_F(OneArray, a_slot_that_cannot_be_added_is_logged_once_until_one_is_added) {
  Config config = small_config(1);
  config.n_batches = 2;
  config.keep_bytes = 1 << 20;
  const auto alloc = std::make_shared<RefusingAlloc>();
  PipelineEnvironment around;
  around.alloc = alloc;
  Pipeline pipeline(config, std::move(around));
  const auto logged = std::make_shared<std::atomic<int>>(0);
  set_log_listener(
      [logged](LogLevel, std::string_view line) { *logged += line.starts_with("no slot was added") ? 1 : 0; });
  const auto pop_refused = [&] {
    for (int i = 0; i < 5; ++i) EXPECT_EQ(error_of([&] { pipeline.pop(); }).where().reason, "held");
  };
  std::vector<Sample> samples;
  for (int i = 0; i < 12; ++i) samples.push_back(crop(i, i));
  pipeline.push(samples);
  std::vector<Batch> kept;
  for (int i = 0; i < 2; ++i) kept.push_back(pipeline.pop());
  alloc->refuse = true;
  pop_refused();
  EXPECT_EQ(*logged, 1);
  alloc->refuse = false;
  kept.push_back(pipeline.pop());
  alloc->refuse = true;
  pop_refused();
  EXPECT_EQ(*logged, 2);
  set_log_listener(nullptr);
}

TEST_F(OneArray, environments_that_keep_batches_choose_a_size_where_none_is_set) {
  Config config = small_config(1);
  PipelineEnvironment around;
  around.keeps_batches = true;
  Pipeline pipeline(config, around);
  std::vector<Batch> kept;
  std::vector<Sample> samples;
  for (int i = 0; i < 12; ++i) samples.push_back(crop(i, i));
  pipeline.push(samples);
  for (int i = 0; i < 12; ++i) kept.push_back(pipeline.pop());
  for (std::size_t i = 0; i < 12; ++i) expect_row(kept[i], 0, samples[i]);
  config.keep_bytes = 0;
  Pipeline none(config, around);
  none.push(samples);
  const Batch first = none.pop(), second = none.pop();
  EXPECT_FALSE(none.try_pop().has_value());
}

TEST_F(OneArray, a_tensor_keeps_its_slot_beyond_release_and_close) {
  DLManagedTensor* tensor = nullptr;
  {
    Pipeline pipeline(small_config(1));
    pipeline.push({crop(3, 4)});
    Batch batch = pipeline.pop();
    tensor = batch.to_dlpack();
    batch.release();
  }
  EXPECT_EQ(static_cast<const std::uint16_t*>(tensor->dl_tensor.data)[0], 3 * 33 + 4);
  tensor->deleter(tensor);
}

TEST_F(OneArray, a_missing_chunk_is_fill_and_a_short_one_is_an_error) {
  std::filesystem::remove(root() / "c.0.0");
  std::filesystem::resize_file(root() / "c.0.1", 100);
  Config config = small_config(1);
  Pipeline pipeline(config);
  pipeline.push({crop(0, 0), crop(0, 17), crop(8, 0)});
  {
    const Batch filled = pipeline.pop();
    EXPECT_EQ(reinterpret_cast<const std::uint16_t*>(filled.bytes().data())[0], 7);
  }
  try {
    pipeline.pop();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::io);
    EXPECT_EQ(error.where().reason, "short-read");
    EXPECT_EQ(error.where().key, "c.0.1");
    EXPECT_EQ(error.where().batch_id, 1);
  }
  expect_row(pipeline.pop(), 0, crop(8, 0));
}

TEST_F(OneArray, chunks_shared_by_samples_are_read_once) {
  Pipeline pipeline(small_config(4));
  pipeline.push({crop(0, 0), crop(1, 1), crop(2, 2), crop(3, 3)});
  const Batch batch = pipeline.pop();
  const Stats stats = pipeline.stats();
  EXPECT_EQ(stats.chunks_decoded, 1);
  EXPECT_EQ(stats.chunks_deduplicated, 3);
  EXPECT_EQ(stats.bytes_read, 8 * 16 * 2);
}

TEST_F(OneArray, a_refused_sample_ends_its_source_and_keeps_what_came_before) {
  Pipeline pipeline(small_config(1));
  try {
    pipeline.push({crop(0, 0), crop(17, 0), crop(1, 0)});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.where().sample_index, 1);
    EXPECT_EQ(error.where().what, "push");
  }
  expect_row(pipeline.pop(), 0, crop(0, 0));
  EXPECT_FALSE(pipeline.try_pop());
}

TEST_F(OneArray, fill_replaces_a_failed_row_and_skip_leaves_it_out) {
  std::filesystem::resize_file(root() / "c.0.1", 100);
  for (const OnError mode : {OnError::fill, OnError::skip}) {
    Config config = small_config(2);
    config.on_error = mode;
    Pipeline pipeline(config);
    pipeline.push({crop(0, 17), crop(8, 0)});
    const Batch batch = pipeline.pop();
    if (mode == OnError::fill) {
      EXPECT_EQ(batch.valid(), (std::vector<bool>{false, true}));
      EXPECT_EQ(reinterpret_cast<const std::uint16_t*>(batch.bytes().data())[34], 7);
      expect_row(batch, 1, crop(8, 0));
    } else {
      EXPECT_EQ(batch.sample_indices(), (std::vector<std::int64_t>{1}));
      expect_row(batch, 0, crop(8, 0));
    }
  }
}

TEST_F(OneArray, batches_of_what_is_no_element_type_of_batches_are_refused) {
  for (const auto dtype : {Dtype::complex64, static_cast<Dtype>(77)}) {
    Config config = small_config(1);
    config.dtype = dtype;
    EXPECT_EQ(error_of([&] { Pipeline pipeline(config); }).status(), Status::inval);
  }
}

TEST_F(OneArray, close_wakes_a_waiting_pop) {
  Config config = small_config(1);
  config.n_batches = 1;
  Pipeline pipeline(config);
  int served = 0;
  pipeline.push([&]() -> std::optional<Sample> { return crop(served++ % 15, 0); });
  std::thread closer([&] { pipeline.close(); });
  EXPECT_THROW(for (;;) { pipeline.pop(); }, Error);
  closer.join();
}

TEST_F(OneArray, steady_state_takes_no_buffer) {
  const auto alloc = std::make_shared<FailingAlloc>(std::make_shared<PageAlloc>(), /*fail_at=*/0, /*for_ever=*/false);
  PipelineEnvironment around;
  around.alloc = alloc;
  Pipeline pipeline(small_config(2), around);
  pipeline.push({crop(0, 0), crop(1, 1)});
  pipeline.pop();
  const auto takes = alloc->takes();
  for (int i = 0; i < 20; ++i) {
    pipeline.push({crop(i % 15, 0), crop(1, i % 26)});
    pipeline.pop();
  }
  EXPECT_EQ(alloc->takes(), takes);
}

}  // namespace
}  // namespace damacy
