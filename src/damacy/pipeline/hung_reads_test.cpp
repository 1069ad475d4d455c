// Reads that never end keep the staging memory they may still write to. Others go on with the rest, and fail by the
// deadline when there is none left; nothing waits for storage that does not answer.
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "damacy/core/checked.h"
#include "damacy/core/error.h"
#include "damacy/device/host_device.h"
#include "damacy/io/store.h"
#include "damacy/pipeline/pipeline.h"
#include "fakes/hung_store.h"
#include "support/tiny_zarr.h"

namespace damacy {
namespace {

using testing::HungStore;
using testing::TempDir;
using testing::write_array;

struct Engine {
  std::optional<HostOrder> device;
  const char* name;
};

class HungReadsOnDevice : public ::testing::TestWithParam<Engine> {
 protected:
  HungReadsOnDevice() {
    for (const char* name : {"bad.zarr", "good.zarr"}) write_array(dir_.path() / name, {kRows, 16}, {1, 16});
    write_array(dir_.path() / "large.zarr", {64, 16 * 16}, {64, 16 * 16});
  }

  // A sample of one chunk, of an array on storage that hangs or not.
  Sample row(const char* array, std::int64_t number) const {
    return {(dir_.path() / array).string(), {{number, number + 1}, {0, 16}}};
  }
  Pipeline make(std::int64_t batch_size) {
    Config config;
    config.batch_size = batch_size;
    config.dtype = Dtype::u16;
    config.host_buffer_bytes = config.device_buffer_bytes = 256 << 10;  // half of it stages
    config.n_io_threads = 2;
    config.device.kind = DeviceChoice::Kind::cpu;
    Surroundings around;
    if (GetParam().device) around.device = make_host_device(*GetParam().device);
    around.device_from_bytes = 0;
    around.clock = clock_;
    around.make_store = [this](const std::string& path) -> std::shared_ptr<Store> {
      auto files = make_file_store(path, 64);
      if (path.find("bad") == path.npos) return files;
      hung_ = std::make_shared<HungStore>(std::move(files));
      return hung_;
    };
    return Pipeline(config, std::move(around));
  }
  // Pops with every deadline passed until there is an answer. Empty: a batch.
  std::optional<Error> pop_late(Pipeline& pipeline) {
    for (int look = 0; look < 1'000'000; ++look) {
      clock_->advance(std::chrono::seconds(61));
      try {
        static_cast<void>(pipeline.pop(std::chrono::nanoseconds(0)));
        return std::nullopt;
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::pop_timeout) return error;
      }
      std::this_thread::yield();
    }
    ADD_FAILURE() << "no answer";
    return std::nullopt;
  }
  static void expect_row(const Batch& batch, std::int64_t number) {
    for (std::int64_t i = 0; i < 16; ++i)
      ASSERT_EQ(reinterpret_cast<const std::uint16_t*>(batch.bytes().data())[i], number * 16 + i);
  }
  // So many reads hang, each of a chunk of its own, and each fails by its deadline.
  void let_hang(Pipeline& pipeline, std::int64_t reads) {
    pipeline.push({row("bad.zarr", kRows - 1)});  // so that metadata are known
    expect_row(pipeline.pop(), kRows - 1);
    hung_->hang(HungStore::Call::read, "");
    for (std::int64_t n = 0; n < reads; ++n) {
      pipeline.push({row("bad.zarr", n)});
      const auto error = pop_late(pipeline);
      ASSERT_TRUE(error) << n;
      ASSERT_EQ(error->where().reason, "deadline") << error->what();
    }
  }

  static constexpr std::int64_t kRows = 128;
  TempDir dir_{"hung-reads"};
  const std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>();
  std::shared_ptr<HungStore> hung_;
};

TEST_P(HungReadsOnDevice, samples_on_storage_that_answers_go_on_while_there_is_memory) {
  Pipeline pipeline = make(1);
  let_hang(pipeline, 12);
  for (std::int64_t n = 0; n < kRows; ++n) {
    pipeline.push({row("good.zarr", n)});
    expect_row(pipeline.pop(), n);
  }
  hung_->let_go();
}

// Staging memory has no room for such a chunk any more. What is wanted of it is less.
TEST_P(HungReadsOnDevice, chunks_that_find_no_staging_memory_are_decoded_on_the_host) {
  Pipeline pipeline = make(1);
  let_hang(pipeline, 18);
  pipeline.push({row("large.zarr", 7)});
  const Batch batch = pipeline.pop();
  for (std::int64_t i = 0; i < 16; ++i)
    ASSERT_EQ(reinterpret_cast<const std::uint16_t*>(batch.bytes().data())[i], 7 * 256 + i);
  hung_->let_go();
}

TEST_P(HungReadsOnDevice, memory_that_hung_reads_use_up_is_the_deadlines_error_until_they_end) {
  Pipeline pipeline = make(1);
  let_hang(pipeline, 100);
  pipeline.push({row("good.zarr", 3)});
  const auto error = pop_late(pipeline);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->where().reason, "deadline") << error->what();
  EXPECT_EQ(error->status(), Status::io);
  EXPECT_EQ(error->where().key, "c.3.0");
  const std::string_view line = error->what();
  EXPECT_NE(line.find("operations that are not responding hold "), line.npos) << line;
  EXPECT_NE(line.find(" bytes in "), line.npos) << line;
  EXPECT_NE(line.find("bad.zarr"), line.npos) << line;
  hung_->let_go();
  for (int look = 0; look < 1'000'000; ++look) {  // abandoned threads need a moment to give their memory back
    pipeline.push({row("good.zarr", 5)});
    try {
      return expect_row(pipeline.pop(), 5);
    } catch (const Error&) {
      std::this_thread::yield();
    }
  }
  FAIL() << "the memory never comes back";
}

INSTANTIATE_TEST_SUITE_P(Engines, HungReadsOnDevice,
                         ::testing::Values(Engine{{}, "workers"},
                                           Engine{HostOrder{HostOrder::Kind::eager, 0, false}, "eager"},
                                           Engine{HostOrder{HostOrder::Kind::lazy, 0, false}, "lazy"},
                                           Engine{HostOrder{HostOrder::Kind::random, 1, false}, "random"}),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace damacy
