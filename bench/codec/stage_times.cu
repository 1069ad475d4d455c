#include "stage_times.h"

#include <cctype>

#include "damacy/codec/cuda/stages.cuh"

namespace damacy::bench {
namespace {

// Runs everything on one stream, with an event between consecutive kernels.
class SerialLauncher {
 public:
  explicit SerialLauncher(const CudaStream& stream) : stream_(stream) {}

  template <class Kernel>
  void launch(gpu::Track, Kernel kernel, const gpu::KernelShape& shape, const gpu::WaveView& wave) {
    if (shape.shared_bytes != 0)
      check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(shape.shared_bytes)),
            "shared");
    if (!shape.wants_cache)
      check(
          cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared),
          "shared");
    const char* name = nullptr;
    check(cudaFuncGetName(&name, reinterpret_cast<const void*>(kernel)), "name");
    cudaEvent_t begin, end;
    check(cudaEventCreate(&begin), "event");
    check(cudaEventCreate(&end), "event");
    check(cudaEventRecord(begin, stream_.get()), "record");
    kernel<<<shape.blocks, shape.threads, shape.shared_bytes, stream_.get()>>>(wave);
    check(cudaGetLastError(), name);
    check(cudaEventRecord(end, stream_.get()), "record");
    stream_.wait();
    float elapsed = 0;
    check(cudaEventElapsedTime(&elapsed, begin, end), "elapsed");
    times.emplace_back(name, elapsed);
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
  }
  void zero(gpu::Track, void* memory, std::size_t bytes) {
    check(cudaMemsetAsync(memory, 0, bytes, stream_.get()), "zero");
  }
  void join(gpu::Track, gpu::Track) {}

  StageTimes times;

 private:
  const CudaStream& stream_;
};

gpu::GpuLimits limits() {
  gpu::GpuLimits limits;
  check(gpu::read_limits(limits), "attribute");
  return limits;
}

gpu::StageShapes shapes_of(unsigned choice) {
  constexpr gpu::u32 kLanes[6] = {1, 14, 4, 5, 8, 10}, kWarps[3] = {4, 8, 16};
  gpu::StageShapes shapes{};
  shapes.sequence_lanes = kLanes[choice % 6];
  shapes.zstd_warps = kWarps[choice / 6 % 3];
  shapes.lz4_warps = kWarps[(choice / 6 + 1) % 3];
  shapes.dense = choice / 18 % 2 == 0;
  return shapes;
}

std::string described(const gpu::StageShapes& shapes) {
  return "S" + std::to_string(shapes.sequence_lanes) + " W" + std::to_string(shapes.zstd_warps) +
         (shapes.dense ? " dense" : " sparse");
}

// _ZN6damacy3gpu12execute_zstdILi4ELi8EEEv... becomes execute_zstd<4,8>.
std::string readable(const std::string& mangled) {
  std::size_t at = mangled.find("3gpu");
  if (at == std::string::npos) return mangled;
  at += 4;
  std::size_t length = 0;
  while (at < mangled.size() && std::isdigit(static_cast<unsigned char>(mangled[at])) != 0)
    length = length * 10 + static_cast<std::size_t>(mangled[at++] - '0');
  std::string name = mangled.substr(at, length);
  for (std::size_t i = at + length; i + 1 < mangled.size() && mangled.compare(i, mangled[i] == 'I' ? 3 : 2,
                                                                              mangled[i] == 'I' ? "ILi" : "Li") == 0;) {
    i += mangled[i] == 'I' ? 3 : 2;
    name += '_';
    while (mangled[i] != 'E') name += mangled[i++];
    ++i;
  }
  return name;
}

}  // namespace

StageTimes stage_times(const Batch& batch) {
  const auto shapes = gpu::StageShapes::choose(batch.shape(), limits());
  const gpu::WaveView view = gpu::view_of(batch.shape(), batch.buffers());
  StageTimes median;
  std::vector<StageTimes> runs;
  for (int i = 0; i < 4; ++i) {
    SerialLauncher launcher(batch.stream());
    gpu::Stages(launcher, view, batch.shape(), shapes).run();
    batch.wait();
    if (i != 0) runs.push_back(launcher.times);
  }
  for (std::size_t k = 0; k < runs[0].size(); ++k) {
    std::vector<double> times;
    for (const StageTimes& run : runs) times.push_back(run[k].second);
    std::sort(times.begin(), times.end());
    median.emplace_back(readable(runs[0][k].first), times[times.size() / 2]);
  }
  return median;
}

std::string launch_shapes(const WaveShape& shape) {
  return described(gpu::StageShapes::choose(shape, limits()));
}

std::string shape_choice(unsigned choice) {
  return described(shapes_of(choice));
}

void decode_in_shape(const Batch& batch, unsigned choice) {
  SerialLauncher launcher(batch.stream());
  gpu::Stages(launcher, gpu::view_of(batch.shape(), batch.buffers()), batch.shape(), shapes_of(choice)).run();
  batch.wait();
}

}  // namespace damacy::bench
