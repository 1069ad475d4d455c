// Many batches on the lazy device, with faults of the store, held batches and tensors, and pipelines that come and go:
// bytes stay true, and nothing grows. DAMACY_SOAK_BATCHES says how many; few by default.
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <iostream>
#include <random>

#include <gtest/gtest.h>
#include <unistd.h>

#include "damacy/core/error.h"
#include "damacy/device/dlpack_abi.h"
#include "damacy/device/host_device.h"
#include "damacy/pipeline/environment.h"
#include "damacy/pipeline/pipeline.h"
#include "support/eventually.h"
#include "support/faulty_store.h"
#include "sweeps/footprint.h"
#include "sweeps/stored_arrays.h"

namespace damacy::testing {
namespace {

constexpr std::int64_t kBatchesOfOnePipeline = 500;
constexpr std::int64_t kBatchesAtOnce = 10;  // so that threads have something to do while others wake up
constexpr std::int64_t kMayGrowBytes = 16 << 20;

std::int64_t wanted_batches() {
  const char* given = std::getenv("DAMACY_SOAK_BATCHES");
  return given == nullptr ? 500 : std::strtoll(given, nullptr, 10);
}

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

struct Held {
  std::optional<Batch> batch;
  DLManagedTensor* tensor = nullptr;
  Held() = default;
  Held(Held&& other) noexcept : batch(std::move(other.batch)), tensor(std::exchange(other.tensor, nullptr)) {}
  Held& operator=(Held&&) = delete;
  ~Held() {
    if (tensor != nullptr) tensor->deleter(tensor);
  }
};

class Soak {
 public:
  // One pipeline's life.
  void run(std::int64_t batches) {
    Fault fault;
    fault.seed = random_();
    fault.one_in = 97;
    const auto store = std::make_shared<FaultyStore>(arrays_, fault);
    Config config;
    config.batch_size = 1;
    config.n_batches = 6;
    config.lookahead_batches = kBatchesAtOnce;
    config.dtype = Dtype::u16;
    config.host_buffer_bytes = config.device_buffer_bytes = 256 << 10;
    config.n_io_threads = 1;
    PipelineEnvironment around;
    around.device = make_host_device({HostOrder::Kind::lazy, 0, false});
    around.device_from_bytes = 0;
    around.make_store = [store](const std::string& path) { return store_below(store, path); };
    Pipeline pipeline(config, std::move(around));
    std::int64_t next = 0;
    std::deque<Held> held;
    for (std::int64_t done = 0; done < batches; done += kBatchesAtOnce) {
      push_some(pipeline, next);
      for (std::int64_t i = 0; i < kBatchesAtOnce; ++i) {
        pop_one(pipeline, held);
        while (held.size() > random_() % 3) held.pop_front();
      }
    }
    faults += store->faults();
  }

  std::int64_t delivered = 0, failed = 0, refused = 0;
  std::uint64_t faults = 0;

 private:
  void push_some(Pipeline& pipeline, std::int64_t& next) {
    try {
      std::vector<Sample> samples;
      for (int k = 0; k < kBatchesAtOnce; ++k, ++next)
        samples.push_back(
            {next % 3 == 0 ? "s.zarr" : "a.zarr", {{next % 35, next % 35 + 5}, {next % 44, next % 44 + 20}}});
      pipeline.push(std::move(samples));
    } catch (const Error&) {
      ++refused;
    }
  }
  void pop_one(Pipeline& pipeline, std::deque<Held>& held) {
    try {
      Held one;
      one.batch.emplace(pipeline.pop(std::chrono::seconds(30)));
      ++delivered;
      check(*one.batch);
      if (random_() % 4 == 0) {
        one.tensor = one.batch->to_dlpack();
        one.batch->release();
      }
      held.push_back(std::move(one));
    } catch (const Error& error) {
      ASSERT_NE(error.kind(), ErrorKind::pop_timeout);
      failed += error.status() == Status::again ? 0 : 1;
    }
  }
  // Row and column of the first element are in it, and the others follow.
  static void check(const Batch& batch) {
    std::vector<std::uint16_t> values(batch.bytes().size() / 2);
    std::memcpy(values.data(), batch.bytes().data(), batch.bytes().size());
    for (std::size_t row = 0; row < values.size() / 100; ++row)
      for (std::size_t i = 0; i < 100; ++i) ASSERT_EQ(values[row * 100 + i], values[row * 100] + i / 20 * 64 + i % 20);
    std::memset(const_cast<std::byte*>(batch.bytes().data()), 0xa5, batch.bytes().size());
  }

  const std::shared_ptr<MemoryStore> arrays_ = make_arrays();
  std::mt19937_64 random_{20};
};

// A thread that was joined may be counted by the system a moment longer.
Footprint settled(const Footprint& wanted) {
  EXPECT_TRUE(eventually([&] { return footprint().threads <= wanted.threads; }));
  return footprint();
}

TEST(Soak, many_batches_with_faults_and_held_tensors_leave_nothing_behind) {
  const std::size_t threads = footprint().threads;
  Soak soak;
  for (int i = 0; i < 2; ++i) soak.run(kBatchesOfOnePipeline);  // what is taken once
  const std::int64_t before = resident_bytes();
  const Footprint start = settled({0, threads});
  const std::int64_t wanted = wanted_batches();
  for (std::int64_t done = 0; done < wanted && !::testing::Test::HasFatalFailure(); done += kBatchesOfOnePipeline)
    soak.run(kBatchesOfOnePipeline);
  const std::int64_t after = resident_bytes();
  const Footprint end = settled(start);
  std::cout << "soak: " << soak.delivered << " batches, " << soak.failed << " failed, " << soak.refused
            << " pushes refused, " << soak.faults << " faults; from start to end: resident memory " << before / 1024
            << " -> " << after / 1024 << " KiB, descriptors " << start.descriptors << " -> " << end.descriptors
            << ", threads " << start.threads << " -> " << end.threads << "\n";
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // these keep what was freed
  EXPECT_LT(after - before, kMayGrowBytes);
#endif
  EXPECT_EQ(end.descriptors, start.descriptors);
  EXPECT_EQ(end.threads, start.threads);
  EXPECT_GT(soak.delivered, wanted / 4);
}

}  // namespace
}  // namespace damacy::testing
