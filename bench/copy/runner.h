// Runs the copier repeatedly on a stream of its own. Does not know the placements.
#pragma once

#include "damacy/copy/placement.h"
#include "damacy/device/cuda_device.h"
#include "gpu/device.h"

namespace damacy::bench {

class Runner {
 public:
  Runner() : device_(bind_primary_context(0)), stream_(device_->make_stream()), copier_(make_cuda_copier()) {}

  void run(const PlacementList& list) {
    const DeviceBuffer image(copier_->image_bytes(list));
    upload(list, image);
    copier_->enqueue(*stream_, list, image.bytes());
    check(cudaStreamSynchronize(handle()), "synchronize");
  }

  // Median milliseconds of `times` runs, without the first one. A copy from one half of `ahead` to the other keeps the
  // device busy before each run, so that the time for enqueueing does not count.
  double median_ms(const PlacementList& list, int times, const DeviceBuffer& ahead) {
    const DeviceBuffer image(copier_->image_bytes(list));
    upload(list, image);
    return median_ms([&] { copier_->enqueue(*stream_, list, image.bytes()); }, times, ahead);
  }

  double median_ms(const std::function<void()>& work, int times, const DeviceBuffer& ahead) {
    const std::span<std::byte> all = ahead.bytes();
    const std::size_t half = all.size() / 2;
    return timed(handle(), times, work, [&] {
      check(cudaMemcpyAsync(all.data(), all.data() + half, half, cudaMemcpyDeviceToDevice, handle()), "copy ahead");
    });
  }

  cudaStream_t handle() const { return reinterpret_cast<cudaStream_t>(stream_->native_handle()); }
  Stream& stream() { return *stream_; }
  Copier& copier() { return *copier_; }

 private:
  void upload(const PlacementList& list, const DeviceBuffer& image) {
    std::vector<std::byte> host(image.bytes().size());
    copier_->write_image(list, host);
    if (!host.empty()) image.write(host);
  }

  std::shared_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Copier> copier_;
};

}  // namespace damacy::bench
