// CUDA for this program: errors end it, memory frees itself, and the library's own stream runs the copier. Knows
// nothing of placements.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <span>
#include <vector>

#include "damacy/copy/placement.h"
#include "damacy/device/cuda_device.h"

namespace damacy::bench {

inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("{\"fatal\": \"%s\", \"cuda\": \"%s\"}\n", what, cudaGetErrorString(error));
  std::fflush(stdout);
  std::_Exit(3);
}

class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t bytes) : bytes_(bytes) {
    check(cudaMalloc(&data_, std::max<std::size_t>(bytes, 1)), "malloc");
  }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer() { cudaFree(data_); }

  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(data_); }
  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(data_), bytes_}; }
  void write(std::span<const std::byte> from, std::size_t at = 0) const {
    check(cudaMemcpy(bytes().data() + at, from.data(), from.size(), cudaMemcpyHostToDevice), "upload");
  }
  void read(std::span<std::byte> to, std::size_t at = 0) const {
    check(cudaMemcpy(to.data(), bytes().data() + at, to.size(), cudaMemcpyDeviceToHost), "download");
  }
  void fill(int value) const { check(cudaMemset(data_, value, bytes_), "fill"); }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

// The copier's runs, one after another on a stream of its own.
class Runner {
 public:
  Runner() : device_(bind_primary_context(0)), stream_(device_->make_stream()), copier_(make_cuda_copier()) {
    check(cudaEventCreate(&begin_), "event");
    check(cudaEventCreate(&end_), "event");
  }

  void run(const PlacementList& list) {
    const DeviceBuffer image(copier_->image_bytes(list));
    upload(list, image);
    copier_->enqueue(*stream_, list, image.bytes());
    wait();
  }

  // Median milliseconds of `times` runs, the first of all left out. Each finds the device busy with a copy from one
  // half of `ahead` to the other, so that the time it takes to enqueue is not the device's.
  double median_ms(const PlacementList& list, int times, const DeviceBuffer& ahead) {
    const DeviceBuffer image(copier_->image_bytes(list));
    upload(list, image);
    return median_ms([&] { copier_->enqueue(*stream_, list, image.bytes()); }, times, ahead);
  }

  double median_ms(const std::function<void()>& work, int times, const DeviceBuffer& ahead) {
    std::vector<double> taken;
    const std::size_t half = ahead.bytes().size() / 2;
    for (int i = 0; i <= times; ++i) {
      check(
          cudaMemcpyAsync(ahead.bytes().data(), ahead.bytes().data() + half, half, cudaMemcpyDeviceToDevice, handle()),
          "copy ahead");
      check(cudaEventRecord(begin_, handle()), "record");
      work();
      check(cudaEventRecord(end_, handle()), "record");
      wait();
      float ms = 0;
      check(cudaEventElapsedTime(&ms, begin_, end_), "time");
      if (i > 0) taken.push_back(ms);
    }
    std::ranges::sort(taken);
    return taken[taken.size() / 2];
  }

  cudaStream_t handle() const { return reinterpret_cast<cudaStream_t>(stream_->native_handle()); }
  Copier& copier() { return *copier_; }

 private:
  void upload(const PlacementList& list, const DeviceBuffer& image) {
    std::vector<std::byte> host(image.bytes().size());
    copier_->write_image(list, host);
    if (!host.empty()) image.write(host);
  }
  void wait() { check(cudaStreamSynchronize(handle()), "synchronize"); }

  std::shared_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Copier> copier_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace damacy::bench
