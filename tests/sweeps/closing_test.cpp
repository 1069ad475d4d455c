// What a closed pipeline still has while its object lives: figures, and slots that batches and tensors use.
#include <cstring>
#include <functional>

#include <gtest/gtest.h>

#include "damacy/core/error.h"
#include "damacy/device/dlpack_abi.h"
#include "damacy/pipeline/environment.h"
#include "damacy/pipeline/pipeline.h"
#include "support/tested_engines.h"
#include "sweeps/failing_new.h"
#include "sweeps/footprint.h"
#include "sweeps/guarded_alloc.h"
#include "sweeps/stored_arrays.h"

namespace damacy::testing {
namespace {

constexpr std::uint64_t kSlotBytes = 512;  // a batch of two boxes of 5 x 20 u16, padded to 256

class Closing : public ::testing::TestWithParam<TestedEngine> {
 protected:
  Pipeline make() {
    Config config;
    config.batch_size = 2;
    config.n_batches = 3;
    config.lookahead_batches = 6;
    config.dtype = Dtype::u16;
    config.host_buffer_bytes = config.device_buffer_bytes = 256 << 10;
    config.n_io_threads = 2;
    config.device.kind = DeviceChoice::Kind::cpu;
    PipelineEnvironment around = GetParam().environment();
    around.alloc = alloc_;
    around.make_store = [store = store_](const std::string& path) { return store_below(store, path); };
    return Pipeline(config, std::move(around));
  }
  // Allocations that a pipeline leaves after it was used that way and closed, while it lives.
  std::int64_t left_after(const std::function<void(Pipeline&)>& use) {
    const std::int64_t before = live_allocations();
    Pipeline pipeline = make();
    use(pipeline);
    pipeline.close();
    return live_allocations() - before;
  }
  static void push_some(Pipeline& pipeline) {
    std::vector<Sample> samples;
    for (std::int64_t n = 0; n < 11; ++n) samples.push_back(sample_at(n, n % 2 == 0 ? "a.zarr" : "s.zarr"));
    pipeline.push(std::move(samples));
  }

  const std::shared_ptr<Store> store_ = make_arrays();
  const std::shared_ptr<GuardedAlloc> alloc_ = std::make_shared<GuardedAlloc>();
};

TEST_P(Closing, frees_samples_metadata_buffers_and_batches_that_were_not_popped) {
  const auto nothing = [](Pipeline&) {};
  const auto work = [](Pipeline& pipeline) {
    push_some(pipeline);
    pipeline.pop().release();
    pipeline.flush();
  };
  static_cast<void>(left_after(work));  // what the process makes once
  const std::int64_t unused = left_after(nothing);
  EXPECT_LT(unused, 32);
  EXPECT_LE(left_after(work), unused);
  EXPECT_EQ(alloc_->held(), 0u);
}

TEST_P(Closing, keeps_the_slots_in_use_and_no_other) {
  Pipeline pipeline = make();
  const Footprint before = footprint();
  push_some(pipeline);
  const Batch held = pipeline.pop();
  Batch exported = pipeline.pop();
  DLManagedTensor* const tensor = exported.to_dlpack();
  exported.release();
  pipeline.close();
  EXPECT_LT(footprint().threads, before.threads);
  EXPECT_EQ(held.info().batch_id, 0);
  std::uint16_t first = 0;
  std::memcpy(&first, held.bytes().data(), sizeof first);
  const Sample sample = sample_at(0, "a.zarr");
  EXPECT_EQ(first, sample.aabb[0].start * kColumns + sample.aabb[1].start);
  if (!GetParam().device) {
    EXPECT_EQ(alloc_->held(), 2 * kSlotBytes);
  }
  tensor->deleter(tensor);
  if (!GetParam().device) {
    EXPECT_EQ(alloc_->held(), kSlotBytes);
  }
}

TEST_P(Closing, keeps_the_last_figures) {
  Pipeline pipeline = make();
  push_some(pipeline);
  pipeline.pop().release();
  pipeline.close();
  const Stats last = pipeline.stats();
  EXPECT_EQ(last.batches_emitted, 1);
  EXPECT_GT(last.zarr_meta_misses, 0);
  EXPECT_GT(last.gpu_bytes_committed, 0);
  EXPECT_EQ(pipeline.explain().text, pipeline.explain().text);
  EXPECT_THROW(pipeline.stats_reset(), Error);
  EXPECT_EQ(pipeline.stats().batches_emitted, 1);
}

INSTANTIATE_TEST_SUITE_P(Engines, Closing, ::testing::ValuesIn(tested_engines()), kEngineName);

}  // namespace
}  // namespace damacy::testing
