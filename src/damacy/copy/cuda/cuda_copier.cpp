// The copier of CUDA devices: one launch for each kernel that a list needs. plan.h makes the records that kernels read.
// Knows streams by handle; launches use the current context.
#include <memory>
#include <vector>

#include "damacy/copy/cuda/kernels.h"
#include "damacy/copy/gpu_plan/plan.h"
#include "damacy/copy/placement.h"
#include "damacy/device/trace.h"

namespace damacy {
namespace {

using copy_cuda::Launch;

cudaError_t launch_one(const Launch& launch, std::uint64_t image, cudaStream_t stream) {
  const copy_cuda::Group group = launch.group(image);
  if (launch.kernel >= copy_cuda::kElements)
    return copy_cuda::launch_elements(launch.kernel, group, launch.tiles, stream);
  if (launch.kernel >= copy_cuda::kFirstBitShuffled)
    return copy_cuda::launch_bit_shuffled(launch.kernel - copy_cuda::kFirstBitShuffled, group, launch.tiles, stream);
  if (launch.kernel >= copy_cuda::kFirstShuffled)
    return copy_cuda::launch_shuffled(launch.kernel - copy_cuda::kFirstShuffled, group, launch.tiles, stream);
  return copy_cuda::launch_rows(launch.kernel - copy_cuda::kFirstRows, group, launch.tiles, stream);
}

class CudaCopier final : public Copier {
 public:
  std::size_t image_bytes(const PlacementList& list) const override {
    return copy_cuda::Plan::image_bytes(list.placements());
  }
  void write_image(const PlacementList& list, std::span<std::byte> image) const override {
    const copy_cuda::Plan plan(list.placements());
    plan.write(image);
    list.set_prepared(std::make_shared<const std::vector<Launch>>(plan.launches().begin(), plan.launches().end()));
  }
  void upload_image(Stream& stream, std::span<std::byte> image, std::span<const std::byte> pinned) override {
    stream.enqueue({{}, [&](std::uint64_t handle) {
                      return static_cast<int>(copy_cuda::launch_fetch(
                          reinterpret_cast<std::uint64_t>(image.data()), reinterpret_cast<std::uint64_t>(pinned.data()),
                          image.size(), reinterpret_cast<cudaStream_t>(handle)));
                    }});
  }
  void enqueue(Stream& stream, const PlacementList& list, std::span<const std::byte> image) override {
    const TraceRange stage("damacy place");
    auto launches = std::static_pointer_cast<const std::vector<Launch>>(list.take_prepared());
    if (!launches) {
      const copy_cuda::Plan plan(list.placements());
      launches = std::make_shared<const std::vector<Launch>>(plan.launches().begin(), plan.launches().end());
    }
    stream.enqueue({{}, [&](std::uint64_t handle) {
                      for (const Launch& launch : *launches)
                        if (const cudaError_t error = launch_one(launch, reinterpret_cast<std::uint64_t>(image.data()),
                                                                 reinterpret_cast<cudaStream_t>(handle));
                            error != cudaSuccess)
                          return static_cast<int>(error);
                      return 0;
                    }});
  }
};

}  // namespace

std::unique_ptr<Copier> make_cuda_copier() {
  return std::make_unique<CudaCopier>();
}

}  // namespace damacy
