// The CUDA copier on a GPU against the host's. Skipped, and saying so, where there is no GPU; kernels_test.cpp runs the
// same code everywhere.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "damacy/copy/cuda/random_placements.h"
#include "damacy/device/cuda_device.h"

namespace damacy {
namespace {

using copy_cuda::testing::Bytes;
using copy_cuda::testing::RandomPlacement;

class Buffer {
 public:
  explicit Buffer(std::size_t bytes) : bytes_(bytes) { EXPECT_EQ(cudaMalloc(&data_, bytes + 1), cudaSuccess); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { cudaFree(data_); }
  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(data_); }
  std::span<const std::byte> bytes() const { return {static_cast<std::byte*>(data_), bytes_}; }
  void write(std::span<const std::byte> from, std::size_t at) {
    EXPECT_EQ(cudaMemcpy(static_cast<std::byte*>(data_) + at, from.data(), from.size(), cudaMemcpyDefault),
              cudaSuccess);
  }
  Bytes read() const {
    Bytes bytes(bytes_);
    EXPECT_EQ(cudaMemcpy(bytes.data(), data_, bytes_, cudaMemcpyDefault), cudaSuccess);
    return bytes;
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

TEST(CopyOnGpu, places_random_boxes_as_the_host_copier_does) {
  if (probe_cuda().state != CudaState::usable) GTEST_SKIP() << "NOT TESTED: " << probe_cuda().why;
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  const auto device = bind_primary_context(0);
  const auto stream = device->make_stream();
  const auto copier = make_cuda_copier();
  for (std::uint64_t seed = 0; seed < 2000 && !HasFailure(); ++seed) {
    const RandomPlacement random(seed);
    Buffer source(random.chunk_skew() + random.chunk().size()), destination(random.destination().size());
    source.write(random.chunk(), random.chunk_skew());
    destination.write(random.destination(), 0);
    Placement placement = random.placement;
    placement.src = source.address() + random.chunk_skew();
    placement.dst = destination.address() + random.dst_begin();
    PlacementList list;
    list.add(placement);
    Bytes host_image(copier->image_bytes(list));
    copier->write_image(list, host_image);
    Buffer image(host_image.size());
    image.write(host_image, 0);
    copier->enqueue(*stream, list, image.bytes());
    stream->record().wait();
    copy_cuda::testing::place_on_host(random.placement);
    EXPECT_TRUE(destination.read() == random.destination()) << random.text();
  }
}

}  // namespace
}  // namespace damacy
