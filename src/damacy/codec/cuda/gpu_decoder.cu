// GpuDecoder on CUDA: puts the stages of a wave on streams.
#include <cuda.h>

#include <array>

#include "damacy/codec/cuda/stages.cuh"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy {
namespace {

void require(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  throw Error(Status::cuda, formatted("GPU decoder: {}: {}", what, cudaGetErrorString(error)));
}

template <class Function>
Function driver_function(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
  require(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found), name);
#else  // the version is that of the toolkit; what is asked for here has been the same since CUDA 4
  require(cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &found), name);
#endif
  if (found != cudaDriverEntryPointSuccess)
    throw Error(Status::cuda, formatted("GPU decoder: the driver has no {}", name));
  return reinterpret_cast<Function>(function);
}

// The context that was current when this was made, to be made current again where handles are closed.
class HomeContext {
 public:
  HomeContext() {
    const auto get_current = driver_function<CUresult (*)(CUcontext*)>("cuCtxGetCurrent");
    if (get_current(&context_) != CUDA_SUCCESS || context_ == nullptr)
      throw Error(Status::cuda, "GPU decoder: no context is current");
  }
  [[nodiscard]] bool push() const { return push_(context_) == CUDA_SUCCESS; }  // false: it is gone
  void pop() const {
    CUcontext popped = nullptr;
    pop_(&popped);
  }

 private:
  CUcontext context_ = nullptr;
  CUresult (*push_)(CUcontext) = driver_function<CUresult (*)(CUcontext)>("cuCtxPushCurrent");
  CUresult (*pop_)(CUcontext*) = driver_function<CUresult (*)(CUcontext*)>("cuCtxPopCurrent");
};

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

gpu::GpuLimits limits_here() {
  gpu::GpuLimits limits;
  require(gpu::read_limits(limits), "attribute");
  return limits;
}

}  // namespace

struct GpuDecoder::Side {
  struct Handles {
    std::array<SideStream, gpu::kTracks - 1> streams;
    std::array<SideEvent, gpu::kTracks> reached;  // how far a track has come, for another to wait for
  };

  Side() = default;
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;
  ~Side() {
    if (home.push()) {
      handles.reset();
      home.pop();
    } else {
      static_cast<void>(handles.release());  // they went with their context
    }
  }

  HomeContext home;
  std::unique_ptr<Handles> handles = std::make_unique<Handles>();
  gpu::GpuLimits limits = limits_here();
};

namespace {

// Keeps the first error; what comes behind it is still enqueued, in vain.
template <class Handles>
class CudaLauncher {
 public:
  CudaLauncher(cudaStream_t main, const Handles& side) : main_(main), side_(side) {}

  template <class Kernel>
  void launch(gpu::Track track, Kernel kernel, const gpu::KernelShape& shape, const gpu::WaveView& wave) {
    prepare(kernel, shape);
    kernel<<<shape.blocks, shape.threads, shape.shared_bytes, stream(track)>>>(wave);
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
  void prepare(Kernel kernel, const gpu::KernelShape& shape) {
    if (shape.shared_bytes != 0)
      note(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                static_cast<int>(shape.shared_bytes)));
    if (!shape.wants_cache)
      note(
          cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared));
  }

  [[nodiscard]] cudaStream_t stream(gpu::Track track) const {
    return track == gpu::Track::main ? main_ : side_.streams[static_cast<std::size_t>(track) - 1].get();
  }

  void note(cudaError_t error) {
    if (error_ == cudaSuccess) error_ = error;
  }

  cudaStream_t main_;
  const Handles& side_;
  cudaError_t error_ = cudaSuccess;
};

}  // namespace

GpuDecoder::GpuDecoder() : side_(std::make_unique<Side>()) {}
GpuDecoder::~GpuDecoder() = default;
GpuDecoder::GpuDecoder(GpuDecoder&&) noexcept = default;
GpuDecoder& GpuDecoder::operator=(GpuDecoder&&) noexcept = default;

int GpuDecoder::decode_wave(std::uint64_t stream, const WaveShape& shape, const WaveBuffers& buffers) {
  if (shape.frames == 0) return 0;
  CudaLauncher launcher(reinterpret_cast<cudaStream_t>(stream), *side_->handles);
  const auto shapes = gpu::StageShapes::choose(shape, side_->limits);
  gpu::Stages(launcher, gpu::view_of(shape, buffers), shape, shapes).run();
  return static_cast<int>(launcher.error());
}

}  // namespace damacy
