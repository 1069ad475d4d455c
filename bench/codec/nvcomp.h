// Decodes batches of frames by nvCOMP, for comparison. The library may be absent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "damacy/codec/gpu_decoder.h"
#include "gpu/device.h"
#include "nvcomp_library.h"

namespace damacy::bench {

class Nvcomp {
 public:
  explicit Nvcomp(const std::string& file);  // empty: none
  [[nodiscard]] bool usable() const { return library_ != nullptr; }
  [[nodiscard]] const std::string& state() const { return state_; }  // its version, or why it is not used

  // Uploads the lists of one batch; decode then enqueues. False if nvCOMP does not return the size of its scratch
  // memory.
  bool prepare(const std::vector<GpuFrame>& frames, std::uint64_t source, std::uint64_t destination,
               const CudaStream& stream);
  void decode(const CudaStream& stream);

 private:
  std::unique_ptr<const NvcompLibrary> library_;
  std::string state_ = "not requested";
  GpuCodec codec_ = GpuCodec::zstd;
  std::size_t count_ = 0, temp_bytes_ = 0;
  DeviceBuffer lists_, temp_;
};

}  // namespace damacy::bench
