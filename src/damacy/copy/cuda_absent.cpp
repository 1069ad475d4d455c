// Stands in for cuda/ in a build without CUDA.
#include "damacy/copy/copy_plan.h"
#include "damacy/copy/placement.h"
#include "damacy/core/error.h"

namespace damacy {

std::unique_ptr<Copier> make_cuda_copier() {
  throw Error(Status::cuda, "built without CUDA", "no-device");
}

int copy::launch_copies(const Plan&, std::span<const std::uint64_t>, int, std::uint64_t) {
  throw Error(Status::cuda, "built without CUDA", "no-device");
}

}  // namespace damacy
