// CUDA for the benchmark: errors end the program, memory frees itself. Knows nothing of codecs.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <utility>
#include <vector>

namespace damacy::bench {

inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("{\"fatal\": \"%s\", \"cuda\": \"%s\"}\n", what, cudaGetErrorString(error));
  std::fflush(stdout);
  std::_Exit(3);
}

// Grows when asked for more; contents are lost then.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer() { cudaFree(data_); }

  void need(std::size_t bytes) {
    if (bytes <= bytes_) return;
    check(cudaFree(data_), "free");
    data_ = nullptr;
    bytes_ = bytes;
    check(cudaMalloc(&data_, bytes), "malloc");
  }
  [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(data_); }
  template <class T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

class Stream {
 public:
  Stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream"); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  [[nodiscard]] cudaStream_t get() const { return stream_; }
  [[nodiscard]] std::uint64_t handle() const { return reinterpret_cast<std::uint64_t>(stream_); }
  void wait() const { check(cudaStreamSynchronize(stream_), "synchronize"); }

 private:
  cudaStream_t stream_ = nullptr;
};

inline void upload(const DeviceBuffer& to, const void* from, std::size_t bytes, const Stream& stream) {
  if (bytes != 0) check(cudaMemcpyAsync(to.as<void>(), from, bytes, cudaMemcpyHostToDevice, stream.get()), "upload");
  stream.wait();
}

inline void download(void* to, const DeviceBuffer& from, std::size_t bytes, const Stream& stream) {
  if (bytes != 0) check(cudaMemcpyAsync(to, from.as<void>(), bytes, cudaMemcpyDeviceToHost, stream.get()), "download");
  stream.wait();
}

// Median of `repeats` runs after one that is thrown away, in ms, between events on the stream.
inline double timed(const Stream& stream, int repeats, const std::function<void()>& work) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  std::vector<float> times;
  for (int i = 0; i <= repeats; ++i) {
    check(cudaEventRecord(begin, stream.get()), "record");
    work();
    check(cudaEventRecord(end, stream.get()), "record");
    stream.wait();
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
