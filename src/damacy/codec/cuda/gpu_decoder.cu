// GpuDecoder on CUDA: puts the stages of a wave on streams.
#include <array>

#include "damacy/codec/cuda/stages.cuh"
#include "damacy/core/error.h"
#include "damacy/core/text.h"

namespace damacy {
namespace {

void require(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  throw Error(Status::cuda, text("GPU decoder: ", what, ": ", cudaGetErrorString(error)));
}

// Owns a stream; closes it.
class SideStream {
 public:
  SideStream() { require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream"); }
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;
  ~SideStream() { cudaStreamDestroy(stream_); }
  [[nodiscard]] cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// Owns an event; closes it.
class SideEvent {
 public:
  SideEvent() { require(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "event"); }
  SideEvent(const SideEvent&) = delete;
  SideEvent& operator=(const SideEvent&) = delete;
  ~SideEvent() { cudaEventDestroy(event_); }
  [[nodiscard]] cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

gpu::u32 multiprocessors_here() {
  int device = 0, count = 0;
  require(cudaGetDevice(&device), "device");
  require(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "attribute");
  return static_cast<gpu::u32>(count);
}

}  // namespace

struct GpuDecoder::Side {
  std::array<SideStream, gpu::kTracks - 1> streams;
  std::array<SideEvent, gpu::kTracks> reached;  // how far a track has come, for another to wait for
  gpu::u32 multiprocessors = multiprocessors_here();
};

namespace {

// Keeps the first error; what comes behind it is still enqueued, in vain.
template <class Side>
class CudaLauncher {
 public:
  CudaLauncher(cudaStream_t main, Side& side) : main_(main), side_(side) {}

  template <class Kernel>
  void launch(gpu::Track track, Kernel kernel, gpu::u32 blocks, gpu::u32 threads, std::size_t shared_bytes,
              const gpu::WaveView& wave) {
    if (shared_bytes != 0) allow(kernel, shared_bytes);
    kernel<<<blocks, threads, shared_bytes, stream(track)>>>(wave);
    note(cudaGetLastError());
  }

  void zero(gpu::Track track, void* memory, std::size_t bytes) {
    note(cudaMemsetAsync(memory, 0, bytes, stream(track)));
  }

  // What comes later on `track` waits for what `other` has got so far.
  void join(gpu::Track track, gpu::Track other) {
    const cudaEvent_t event = side_.reached[static_cast<std::size_t>(other)].get();
    note(cudaEventRecord(event, stream(other)));
    note(cudaStreamWaitEvent(stream(track), event, 0));
  }

  [[nodiscard]] cudaError_t error() const { return error_; }

 private:
  template <class Kernel>
  void allow(Kernel kernel, std::size_t shared_bytes) {
    note(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)));
    note(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared));
  }

  [[nodiscard]] cudaStream_t stream(gpu::Track track) const {
    return track == gpu::Track::main ? main_ : side_.streams[static_cast<std::size_t>(track) - 1].get();
  }

  void note(cudaError_t error) {
    if (error_ == cudaSuccess) error_ = error;
  }

  cudaStream_t main_;
  Side& side_;
  cudaError_t error_ = cudaSuccess;
};

}  // namespace

GpuDecoder::GpuDecoder() : side_(std::make_unique<Side>()) {}
GpuDecoder::~GpuDecoder() = default;
GpuDecoder::GpuDecoder(GpuDecoder&&) noexcept = default;
GpuDecoder& GpuDecoder::operator=(GpuDecoder&&) noexcept = default;

int GpuDecoder::decode_wave(std::uint64_t stream, const WaveShape& shape, const WaveBuffers& buffers) {
  if (shape.frames == 0) return 0;
  CudaLauncher launcher(reinterpret_cast<cudaStream_t>(stream), *side_);
  const auto shapes = gpu::StageShapes::choose(shape, side_->multiprocessors);
  gpu::Stages(launcher, gpu::view_of(shape, buffers), shape, shapes).run();
  return static_cast<int>(launcher.error());
}

}  // namespace damacy
