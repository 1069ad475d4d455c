// CUDA helpers for benchmark programs: errors end the program, destructors free memory. Measures nothing.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <span>
#include <vector>

namespace damacy::bench {

inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("{\"fatal\": \"%s\", \"cuda\": \"%s\"}\n", what, cudaGetErrorString(error));
  std::fflush(stdout);
  std::_Exit(3);
}

struct DeviceAllocation {
  static void* take(std::size_t bytes) {
    void* data = nullptr;
    check(cudaMalloc(&data, bytes), "malloc");
    return data;
  }
  static void give(void* data) { cudaFree(data); }
};

struct PinnedAllocation {
  static void* take(std::size_t bytes) {
    void* data = nullptr;
    check(cudaMallocHost(&data, bytes), "malloc of pinned memory");
    return data;
  }
  static void give(void* data) { cudaFreeHost(data); }
};

// Grows on demand; its contents are then lost.
template <class Allocation>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t bytes) { need(bytes); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { Allocation::give(data_); }

  void need(std::size_t bytes) {
    if (bytes <= bytes_) return;
    Allocation::give(data_);
    data_ = nullptr;
    data_ = Allocation::take(bytes);
    bytes_ = bytes;
  }
  [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(data_); }
  [[nodiscard]] std::span<std::byte> bytes() const { return {static_cast<std::byte*>(data_), bytes_}; }
  template <class T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

using PinnedBuffer = Buffer<PinnedAllocation>;

class DeviceBuffer : public Buffer<DeviceAllocation> {
 public:
  using Buffer::Buffer;
  void write(std::span<const std::byte> from, std::size_t at = 0) const {
    check(cudaMemcpy(bytes().data() + at, from.data(), from.size(), cudaMemcpyHostToDevice), "upload");
  }
  void read(std::span<std::byte> to, std::size_t at = 0) const {
    check(cudaMemcpy(to.data(), bytes().data() + at, to.size(), cudaMemcpyDeviceToHost), "download");
  }
  void fill(int value) const { check(cudaMemset(as<void>(), value, bytes().size()), "fill"); }
};

class CudaStream {
 public:
  CudaStream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream"); }
  ~CudaStream() { cudaStreamDestroy(stream_); }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  [[nodiscard]] cudaStream_t get() const { return stream_; }
  [[nodiscard]] std::uint64_t handle() const { return reinterpret_cast<std::uint64_t>(stream_); }
  void wait() const { check(cudaStreamSynchronize(stream_), "synchronize"); }

 private:
  cudaStream_t stream_ = nullptr;
};

inline void upload(const DeviceBuffer& to, const void* from, std::size_t bytes, const CudaStream& stream) {
  if (bytes != 0) check(cudaMemcpyAsync(to.as<void>(), from, bytes, cudaMemcpyHostToDevice, stream.get()), "upload");
  stream.wait();
}

inline void download(void* to, const DeviceBuffer& from, std::size_t bytes, const CudaStream& stream) {
  if (bytes != 0) check(cudaMemcpyAsync(to, from.as<void>(), bytes, cudaMemcpyDeviceToHost, stream.get()), "download");
  stream.wait();
}

// Median time of `repeats` runs after a warm-up run, in ms, between events on the stream. `ahead` is enqueued before
// each run and does not count: while the device is busy with it, the run is enqueued.
inline double timed(
    cudaStream_t stream, int repeats, const std::function<void()>& work, const std::function<void()>& ahead = [] {}) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  std::vector<float> times;
  for (int i = 0; i <= repeats; ++i) {
    ahead();
    check(cudaEventRecord(begin, stream), "record");
    work();
    check(cudaEventRecord(end, stream), "record");
    check(cudaStreamSynchronize(stream), "synchronize");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end), "elapsed");
    if (i != 0) times.push_back(ms);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace damacy::bench
