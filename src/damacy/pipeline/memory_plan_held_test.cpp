// What pipelines allocate is what the plan says, part by part: on the cores, and on a lazy host device in place of a
// GPU. Random settings.
#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "damacy/batch/memory_plan.h"
#include "damacy/core/error.h"
#include "damacy/device/host_device.h"
#include "damacy/device/ordered_alloc.h"
#include "damacy/pipeline/environment.h"
#include "damacy/pipeline/pipeline.h"
#include "support/forwarding_device.h"
#include "support/tiny_zarr.h"

namespace damacy {
namespace {

using testing::TempDir;
using testing::write_array;

// Knows every buffer that is held, by size.
class CountingAlloc final : public Alloc {
 public:
  explicit CountingAlloc(std::shared_ptr<Alloc> inner) : inner_(std::move(inner)) {}
  std::byte* take(std::size_t bytes) override {
    std::byte* const memory = inner_->take(bytes);
    const std::lock_guard lock(mutex_);
    ++held_[bytes];
    now_ += bytes;
    most_ = std::max(most_, now_);
    return memory;
  }
  void give(std::byte* memory, std::size_t bytes) noexcept override {
    {
      const std::lock_guard lock(mutex_);
      if (--held_[bytes] == 0) held_.erase(bytes);
      now_ -= bytes;
    }
    inner_->give(memory, bytes);
  }
  std::map<std::size_t, int> held() const {
    const std::lock_guard lock(mutex_);
    return held_;
  }
  std::uint64_t most() const {
    const std::lock_guard lock(mutex_);
    return most_;
  }

 private:
  const std::shared_ptr<Alloc> inner_;
  mutable std::mutex mutex_;
  std::map<std::size_t, int> held_;  // how many, by bytes
  std::uint64_t now_ = 0, most_ = 0;
};

// A lazy host device that counts its two kinds of memory.
class CountedDevice final : public testing::ForwardingDevice {
 public:
  CountedDevice() : ForwardingDevice(make_host_device({.kind = HostOrder::Kind::lazy})) {}
  std::shared_ptr<Alloc> device_memory() override { return device; }
  std::shared_ptr<Alloc> pinned_memory() override { return pinned; }

  const std::shared_ptr<CountingAlloc> device = std::make_shared<CountingAlloc>(inner().device_memory());
  const std::shared_ptr<CountingAlloc> pinned = std::make_shared<CountingAlloc>(inner().pinned_memory());
};

class HeldMemory : public ::testing::Test {
 protected:
  static constexpr std::int64_t kElements = 9 * 20;  // of a sample
  static std::int64_t bytes_of_slot(const Config& config) {
    return array_slot_bytes(config.batch_size, kElements, config.dtype);
  }
  HeldMemory() { write_array(root(), {40, 64}, {8, 16}); }
  std::filesystem::path root() const { return dir_.path() / "a.zarr"; }

  Config random_config() {
    const auto bytes = [&] { return (std::int64_t{1} << 18) + static_cast<std::int64_t>(random_() % (8 << 20)); };
    Config config;
    config.batch_size = 1 + static_cast<std::int64_t>(random_() % 8);
    config.host_buffer_bytes = bytes();
    config.device_buffer_bytes = bytes();
    config.n_io_threads = 1 + static_cast<std::int64_t>(random_() % 4);
    config.n_compute_threads = static_cast<std::int64_t>(random_() % 3);
    config.n_batches = 1 + static_cast<std::int64_t>(random_() % 3);
    config.keep_bytes = static_cast<std::int64_t>(random_() % 20'000);
    if (random_() % 2) config.max_chunk_uncompressed_bytes = 256 + static_cast<std::int64_t>(random_() % 5000);
    return config;
  }
  Machine machine(bool gpu) const {
    Machine found = read_machine();
    found.gpu = gpu;
    return found;
  }
  // Holds as many batches as it may, then lets go of them, several times.
  void stream(Pipeline& pipeline, const Config& config) {
    std::vector<Sample> samples;
    for (std::int64_t i = 0; i < 12 * config.batch_size; ++i) {
      const auto row = static_cast<std::int64_t>(random_() % 31), column = static_cast<std::int64_t>(random_() % 44);
      samples.push_back({root().string(), {{row, row + 9}, {column, column + 20}}});
    }
    pipeline.push(samples);
    std::vector<Batch> held;
    for (int popped = 0; popped < 12;) {
      try {
        held.push_back(pipeline.pop());
        ++popped;
      } catch (const Error& error) {
        ASSERT_EQ(error.where().reason, "held") << error.what();
        held.clear();
      }
    }
  }

  std::mt19937_64 random_{17};
  TempDir dir_{"held-memory"};
};

std::uint64_t bytes_of(const std::vector<MemoryPart>& parts, MemoryKind kind, bool with_slots) {
  std::uint64_t sum = 0;
  for (const MemoryPart& part : parts)
    if (part.kind == kind && (with_slots || part.taken == Taken::at_start || part.taken == Taken::reserved))
      sum += part.bytes.value();
  return sum;
}

TEST_F(HeldMemory, of_the_cores_is_staging_scratch_and_slots) {
  for (int round = 0; round < 20; ++round) {
    const Config config = random_config();
    const MemoryPlan plan = plan_memory(config, machine(false));
    const SlotPlan slots = plan_slots(config, machine(false), bytes_of_slot(config), false);
    const auto alloc = std::make_shared<CountingAlloc>(std::make_shared<PageAlloc>());
    PipelineEnvironment around;
    around.alloc = alloc;
    Config on_cores = config;
    on_cores.device = {DeviceChoice::Kind::cpu};
    Pipeline pipeline(on_cores, around);
    std::map<std::size_t, int> expected;
    ++expected[plan.staging];
    ++expected[plan.scratch];
    EXPECT_EQ(alloc->held(), expected);
    stream(pipeline, config);
    EXPECT_LE(alloc->most() + plan.catalog.bytes, bytes_of(parts_of(config, plan, slots), MemoryKind::host, true));
    EXPECT_GE(alloc->held().at(static_cast<std::size_t>(slots.bytes)), static_cast<int>(slots.count));
    EXPECT_LE(pipeline.stats().kept_bytes_committed, slots.keep.bytes);
    EXPECT_EQ(pipeline.stats().host_bytes_committed, static_cast<std::int64_t>(plan.host_bytes()));
  }
}

TEST_F(HeldMemory, of_a_device_is_that_of_its_waves_and_slots) {
  for (int round = 0; round < 12; ++round) {
    const Config config = random_config();
    const MemoryPlan plan = plan_memory(config, machine(true));
    const SlotPlan slots = plan_slots(config, machine(true), bytes_of_slot(config), false);
    const WaveSizes& waves = plan.waves;
    const auto device = std::make_shared<CountedDevice>();
    PipelineEnvironment around;
    around.device = device;
    around.device_from_bytes = round % 2 == 0 ? 0 : ~std::uint64_t{0};
    Pipeline pipeline(config, around);
    constexpr std::size_t kRepair = WaveSizes::kRepairImage + WaveSizes::kRepairFill;
    std::map<std::size_t, int> on_device, pinned;
    on_device[waves.slab + WaveSizes::kPadding] += static_cast<int>(waves.count);
    on_device[waves.destination] += static_cast<int>(waves.count);
    ++on_device[waves.scratch];
    ++on_device[kRepair];
    ++pinned[plan.staging];
    ++pinned[waves.images];
    ++pinned[kRepair];
    EXPECT_EQ(device->device->held(), on_device);
    EXPECT_EQ(device->pinned->held(), pinned);
    const std::vector<MemoryPart> parts = parts_of(config, plan, slots);
    EXPECT_EQ(device->device->most(), bytes_of(parts, MemoryKind::gpu, false));
    stream(pipeline, config);
    EXPECT_LE(device->device->most(), bytes_of(parts, MemoryKind::gpu, true));
    EXPECT_EQ(device->pinned->most(), bytes_of(parts, MemoryKind::pinned, true));
    EXPECT_EQ(pipeline.stats().host_bytes_committed, static_cast<std::int64_t>(plan.host_bytes()));
  }
}

}  // namespace
}  // namespace damacy
