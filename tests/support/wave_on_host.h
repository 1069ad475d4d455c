// Decodes a wave with the real kernels on the host: for tests and fuzzing, not for use. Include simt_on_host_impl.h in
// one source file of the program.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "damacy/codec/cuda/stages.cuh"
#include "damacy/codec/gpu_decoder.h"

namespace damacy::gpu {

// Kernels in the order of their launch; tracks do not run side by side.
class HostLauncher {
 public:
  explicit HostLauncher(u64 seed) : seed_(seed) {}

  template <class Kernel>
  void launch(Track, Kernel kernel, const KernelShape& shape, const WaveView& wave) {
    simt::launch({shape.blocks, shape.threads, shape.shared_bytes}, [&] { kernel(wave); }, seed_++);
  }
  void zero(Track, void* memory, std::size_t bytes) { std::memset(memory, 0, bytes); }
  void join(Track, Track) {}

 private:
  u64 seed_;
};

// Memory with the alignment that device allocations have, and exactly as large as asked for, so that sanitizers see
// the first byte too many.
class DeviceMemory {
 public:
  DeviceMemory(std::size_t bytes, std::byte fill)
      : bytes_(bytes), data_(static_cast<std::byte*>(::operator new(bytes + (bytes == 0 ? 1 : 0), kAlignment))) {
    std::memset(data_.get(), static_cast<int>(fill), bytes);
  }
  [[nodiscard]] std::byte* data() const { return data_.get(); }
  [[nodiscard]] std::size_t size() const { return bytes_; }
  [[nodiscard]] u64 address() const { return reinterpret_cast<u64>(data_.get()); }

 private:
  static constexpr std::align_val_t kAlignment{256};
  struct Freer {
    void operator()(std::byte* data) const { ::operator delete(data, kAlignment); }
  };
  std::size_t bytes_;
  std::unique_ptr<std::byte, Freer> data_;
};

// `source` is padded as WaveBuffers asks. Returns the status words.
inline std::vector<u32> decode_wave_on_host(const WaveDescriptors& wave, const DeviceMemory& source,
                                            const DeviceMemory& destination, const StageShapes& shapes, u64 seed) {
  const WaveShape& shape = wave.shape();
  const DeviceMemory image(image_bytes(shape), std::byte{0xcd}), scratch(scratch_bytes(shape), std::byte{0xcd});
  wave.write_image({image.data(), image.size()});
  std::vector<u32> status(shape.frames, static_cast<u32>(Fault::pending));
  WaveBuffers buffers;
  buffers.source = source.address();
  buffers.destination = destination.address();
  buffers.scratch = scratch.address();
  buffers.descriptors = image.address();
  buffers.status = reinterpret_cast<u64>(status.data());
  HostLauncher launcher(seed);
  Stages(launcher, view_of(shape, buffers), shape, shapes).run();
  return status;
}

}  // namespace damacy::gpu
