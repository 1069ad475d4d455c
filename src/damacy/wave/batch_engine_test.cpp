// The engines under their contract: on the cores, on host devices, and on a GPU where there is one.
#include "damacy/batch/batch_engine.h"

#include "conformance/batch_engine_suite.h"
#include "damacy/batch/memory_plan.h"
#include "damacy/batch/worker_engine.h"
#include "damacy/device/cuda_device.h"
#include "damacy/device/host_device.h"
#include "damacy/wave/device_waves.h"

namespace damacy {
namespace {

MemoryPlan plan_for(const Config& config, bool device) {
  Machine machine;
  machine.cores = machine.rank_cores = 4;
  machine.open_files = 256;
  machine.gpu = device;
  return plan_memory(config, machine);
}

struct WorkerFixture {
  static MemoryPlan plan(const Config& config) { return plan_for(config, false); }
  static TestedEngine make(const Config& config, Readers& readers, StatsBoard& board) {
    return {std::make_unique<WorkerEngine>(plan(config), std::make_shared<PageAlloc>(), readers, board)};
  }
};

struct DeviceFixture {
  static MemoryPlan plan(const Config& config) { return plan_for(config, true); }
};

TestedEngine stream_engine(const std::shared_ptr<Device>& device, const Config& config, Readers& readers,
                           StatsBoard& board, std::uint64_t device_from_bytes = 0) {
  DeviceParts parts;
  parts.plan = plan_for(config, true);
  parts.device = device;
  parts.decoder = device->is_host() ? make_host_stream_decoder() : make_cuda_stream_decoder();
  parts.copier = device->is_host() ? make_host_copier() : make_cuda_copier();
  parts.device_from_bytes = device_from_bytes;
  return {make_stream_engine(std::move(parts), readers, board), device};
}

// `crops`: every chunk is decoded and cropped by readers.
template <HostOrder::Kind kind, bool crops = false>
struct StreamFixture : DeviceFixture {
  static TestedEngine make(const Config& config, Readers& readers, StatsBoard& board) {
    return stream_engine(make_host_device({.kind = kind, .seed = 11, .guard = true}), config, readers, board,
                         crops ? ~std::uint64_t{0} : 0);
  }
};

struct GpuFixture : DeviceFixture {
  static TestedEngine make(const Config& config, Readers& readers, StatsBoard& board) {
    if (probe_cuda().state != CudaState::usable) return {};
    return stream_engine(bind_primary_context(0), config, readers, board);
  }
};

using Kind = HostOrder::Kind;
using LazyCrops = StreamFixture<Kind::lazy, true>;
INSTANTIATE_TYPED_TEST_SUITE_P(Worker, BatchEngineSuite, WorkerFixture);
INSTANTIATE_TYPED_TEST_SUITE_P(Eager, BatchEngineSuite, StreamFixture<Kind::eager>);
INSTANTIATE_TYPED_TEST_SUITE_P(Lazy, BatchEngineSuite, StreamFixture<Kind::lazy>);
INSTANTIATE_TYPED_TEST_SUITE_P(LazyCrops, BatchEngineSuite, LazyCrops);
INSTANTIATE_TYPED_TEST_SUITE_P(Random, BatchEngineSuite, StreamFixture<Kind::random>);
INSTANTIATE_TYPED_TEST_SUITE_P(Gpu, BatchEngineSuite, GpuFixture);

}  // namespace
}  // namespace damacy
