// Storage that never answers: an operation is reported at its deadline, other samples are delivered, a close does not
// wait, and memory that a hung read may still write to is not reused until the read has ended.
#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "damacy/core/clock.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/pipeline/environment.h"
#include "damacy/pipeline/pipeline.h"
#include "fakes/hung_store.h"
#include "support/eventually.h"
#include "support/log_records.h"
#include "support/tested_engines.h"
#include "sweeps/failing_new.h"
#include "sweeps/footprint.h"
#include "sweeps/guarded_alloc.h"
#include "sweeps/stored_arrays.h"

namespace damacy::testing {
namespace {

using Call = HungStore::Call;

class HungStorage : public ::testing::TestWithParam<TestedEngine> {
 protected:
  Pipeline make(std::int64_t batch_size, OnError on_error = OnError::raise, std::int64_t n_io_threads = 2) {
    Config config;
    config.batch_size = batch_size;
    config.on_error = on_error;
    config.dtype = Dtype::u16;
    config.host_buffer_bytes = config.device_buffer_bytes = 256 << 10;
    config.n_io_threads = n_io_threads;
    config.device.kind = DeviceChoice::Kind::cpu;
    PipelineEnvironment around = GetParam().environment();
    around.alloc = alloc_;
    around.clock = clock_;
    around.make_store = [store = store_](const std::string& path) { return store_below(store, path); };
    return Pipeline(config, std::move(around));
  }
  static Sample row(std::int64_t number, const char* array = "a.zarr") {
    return {array, {{number, number + 1}, {0, 16}}};
  }
  static void expect_row(const Batch& batch, std::int64_t number) {
    std::vector<std::uint16_t> values(batch.bytes().size() / 2);
    std::memcpy(values.data(), batch.bytes().data(), batch.bytes().size());
    for (std::size_t i = 0; i < 16; ++i) ASSERT_EQ(values[i], number * 64 + static_cast<std::int64_t>(i));
  }
  template <class Work>
  static std::optional<Error> error_of(Work work) {
    try {
      work();
    } catch (const Error& error) {
      return error;
    }
    return std::nullopt;
  }
  void expect_deadline(const std::optional<Error>& error, std::string_view key) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->status(), Status::io) << error->what();
    EXPECT_EQ(error->where().reason, "deadline") << error->what();
    EXPECT_EQ(error->where().key, key) << error->what();
    EXPECT_EQ(error->where().uri.substr(1), ".zarr") << error->what();
  }
  void pass_deadline() {
    store_->wait_until_hung();
    clock_->advance(std::chrono::seconds(60));
  }
  // What hung threads kept is free, once they were let go; they need a moment.
  bool nothing_is_kept() {
    store_->let_go();
    return eventually([this] { return alloc_->held() == 0 && footprint().threads <= threads_; }) &&
           alloc_->broken_guards() == 0;
  }
  // The error of the next batch while every read hangs. Time passes each time another read hangs, which makes those
  // before it late.
  std::optional<Error> error_of_hung(Pipeline& pipeline) {
    std::optional<Error> error;
    EXPECT_TRUE(eventually([&] {
      if (const std::size_t hung = store_->hung(); hung != std::exchange(seen_hung_, hung))
        clock_->advance(std::chrono::seconds(60));
      error = error_of([&] { pipeline.pop(std::chrono::milliseconds(1)); });
      return !error || error->kind() != ErrorKind::pop_timeout;
    }));
    return error;
  }

  const std::size_t threads_ = footprint().threads;
  std::size_t seen_hung_ = 0;
  const std::shared_ptr<HungStore> store_ = std::make_shared<HungStore>(make_arrays());
  const std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>();
  const std::shared_ptr<GuardedAlloc> alloc_ = std::make_shared<GuardedAlloc>();
};

TEST_P(HungStorage, a_read_fails_its_sample_at_the_deadline_and_no_other) {
  {
    Pipeline pipeline = make(1);
    store_->hang(Call::read, "c.1.0");
    pipeline.push({row(0), row(8)});
    expect_row(pipeline.pop(), 0);
    const auto early = error_of([&] { pipeline.pop(std::chrono::nanoseconds(0)); });
    ASSERT_TRUE(early);
    EXPECT_EQ(early->kind(), ErrorKind::pop_timeout);
    pass_deadline();
    const auto late = error_of([&] { pipeline.pop(); });
    expect_deadline(late, "c.1.0");
    EXPECT_EQ(late->where().lost, std::vector<std::int64_t>{1});
    for (std::int64_t n = 16; n < 40; ++n) {
      if (n == 30) store_->let_go();  // and writes over what it was given
      pipeline.push({row(n)});
      expect_row(pipeline.pop(), n);
    }
  }
  EXPECT_TRUE(nothing_is_kept());
}

TEST_P(HungStorage, a_read_is_given_up_at_its_deadline_also_without_memory) {
  {
    Pipeline pipeline = make(1);
    store_->hang(Call::read, "c.1.0", 1);
    pipeline.push({row(0), row(8)});
    expect_row(pipeline.pop(), 0);
    pass_deadline();
    bool starved = false;
    {
      const Starved without_memory;
      try {
        pipeline.pop(std::chrono::nanoseconds(0));
      } catch (const Error& error) {  // no memory for this call's own error either
        starved = error.status() == Status::oom;
      }
    }
    EXPECT_TRUE(starved);
    const auto error = error_of([&] { pipeline.pop(); });
    ASSERT_TRUE(error);
    // Out of memory where the text of the timeout could not be kept. "empty": the batch failed during the first pop,
    // which threw the batch's error.
    const std::string reason = error->where().reason;
    EXPECT_TRUE(error->status() == Status::oom || reason == "deadline" || reason == "empty") << error->what();
    for (std::int64_t n = 16; n < 24; ++n) {
      pipeline.push({row(n)});
      expect_row(pipeline.pop(), n);
    }
    pipeline.push({row(9)});  // the same chunk: asked anew
    expect_row(pipeline.pop(), 9);
  }
  EXPECT_TRUE(nothing_is_kept());
}

TEST_P(HungStorage, every_kind_of_call_has_the_deadline) {
  struct Case {
    Call call;
    const char *suffix, *array, *key;
  };
  for (const Case& one : {Case{Call::open, "c.1.0", "a.zarr", "c.1.0"}, Case{Call::stamp, "c.1.0", "a.zarr", "c.1.0"},
                          Case{Call::stamp, "a.zarr/zarr.json", "a.zarr", "zarr.json"},
                          Case{Call::read, "s.zarr/c.0.0", "s.zarr", "c.0.0"}}) {
    Pipeline pipeline = make(1);
    pipeline.push({row(20, one.array)});  // so that the document is known
    expect_row(pipeline.pop(), 20);
    const std::size_t before = store_->hung();
    store_->hang(one.call, one.suffix, 1);
    std::optional<Error> error;
    std::thread caller([&] {
      error = error_of([&] {
        pipeline.push({row(8, one.array)});
        pipeline.pop();
      });
    });
    store_->wait_until_hung(before + 1);
    clock_->advance(std::chrono::seconds(60));
    caller.join();
    expect_deadline(error, one.key);
    pipeline.push({row(25, one.array)});
    expect_row(pipeline.pop(), 25);
    store_->let_go();
  }
  EXPECT_TRUE(nothing_is_kept());
}

TEST_P(HungStorage, a_document_that_is_not_answered_is_the_pushs_error) {
  Pipeline pipeline = make(1);
  store_->hang(Call::open, "a.zarr/zarr.json");
  std::optional<Error> error;
  std::thread caller([&] { error = error_of([&] { pipeline.push({row(0), row(1)}); }); });
  pass_deadline();
  caller.join();
  expect_deadline(error, "zarr.json");
  EXPECT_EQ(error->where().what, "push");
  pipeline.push({row(17, "s.zarr")});
  expect_row(pipeline.pop(), 17);
}

TEST_P(HungStorage, more_reads_may_hang_than_there_are_threads) {
  {
    Pipeline pipeline = make(1);
    store_->hang(Call::read, ".0");
    for (std::int64_t n = 0; n < 32; n += 16) {
      pipeline.push({row(n), row(n + 8)});
      for (const std::int64_t chunk : {n / 8, n / 8 + 1})
        expect_deadline(error_of_hung(pipeline), formatted("c.{}.0", chunk));
    }
    store_->hang(Call::read, ".0", 0);  // those that hang go on to do so
    pipeline.push({row(33)});
    expect_row(pipeline.pop(), 33);
  }
  EXPECT_TRUE(nothing_is_kept());
}

TEST_P(HungStorage, a_close_leaves_a_hung_read_behind_and_says_so) {
  LogRecords records;
  {
    Pipeline pipeline = make(2);
    store_->hang(Call::read, "c.1.0");
    pipeline.push({row(0), row(8), row(16), row(24)});
    store_->wait_until_hung();
    pipeline.close();
  }
  const auto says_so = [](const LogRecords::Record& record) {
    return record.first == LogLevel::warn &&
           record.second.find("closed without waiting for reads that hang") != std::string::npos;
  };
  EXPECT_EQ(std::ranges::count_if(records.all(), says_so), 1);
  if (!GetParam().device) {
    EXPECT_GT(alloc_->held(), 0u);
  }
  EXPECT_TRUE(nothing_is_kept());
}

TEST_P(HungStorage, a_close_wakes_a_push_whose_document_hangs) {
  {
    Pipeline pipeline = make(2);
    store_->hang(Call::open, "a.zarr/zarr.json");
    std::optional<Error> error;
    std::thread caller([&] { error = error_of([&] { pipeline.push({row(0)}); }); });
    store_->wait_until_hung();
    pipeline.close();
    caller.join();
    ASSERT_TRUE(error);
    EXPECT_EQ(error->status(), Status::shutdown);
  }
  EXPECT_TRUE(nothing_is_kept());
}

INSTANTIATE_TEST_SUITE_P(Engines, HungStorage, ::testing::ValuesIn(tested_engines()), kEngineName);

}  // namespace
}  // namespace damacy::testing
