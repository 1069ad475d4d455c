#include "damacy/single/process_waves.h"

#include <utility>

#include "damacy/core/fork.h"
#include "damacy/device/cuda_device.h"
#include "damacy/device/host_device.h"
#include "damacy/device/this_machine.h"

namespace damacy {

std::shared_ptr<DeviceWaves> ProcessWaves::of_gpu(int index) {
  auto device = bind_primary_context(index);
  const Lock lock(mutex_);
  auto& reads = reads_[index];
  if (!reads) {
    const Machine machine = this_machine({DeviceChoice::Kind::index, index});
    reads =
        std::make_shared<Counted>(DeviceParts{plan_single_reads(machine), std::move(device), make_cuda_stream_decoder(),
                                              make_cuda_copier(), bytes_worth_a_device(machine.cores),
                                              /*never_more_than_stored=*/true});
  }
  return {reads, &reads->waves};
}

std::shared_ptr<DeviceWaves> ProcessWaves::of_lazy_host(std::size_t slab) {
  const Lock lock(mutex_);
  auto& reads = reads_[-1 - static_cast<int>(slab)];
  if (!reads) {
    Config config;
    config.host_buffer_bytes = 4 << 20;
    config.device_buffer_bytes = 8 << 20;
    Machine machine;
    machine.gpu = true;
    DeviceParts parts{plan_memory(config, machine), make_host_device({.kind = HostOrder::Kind::lazy}),
                      make_host_stream_decoder(), make_host_copier()};
    parts.plan.waves.slab = slab;
    reads = std::make_shared<Counted>(std::move(parts));
  }
  return {reads, &reads->waves};
}

Metric ProcessWaves::copies(bool reset) {
  const Lock lock(mutex_);
  Metric sum;
  for (const auto& [device, reads] : reads_) {
    const Metric one = reads->board.read().h2d;
    sum.input_bytes += one.input_bytes;
    sum.count += one.count;
    if (reset) reads->board.reset();
  }
  return sum;
}

void ProcessWaves::stop() noexcept {
  const Lock lock(mutex_);
  for (const auto& [device, reads] : reads_) reads->waves.finish();
}

ProcessWaves& process_waves() {
  return one_per_process<ProcessWaves>();
}

}  // namespace damacy
