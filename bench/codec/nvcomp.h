// nvCOMP's batched decompressors, opened at run time, for comparison. Absent is an ordinary state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "damacy/codec/gpu_decoder.h"
#include "device.h"

namespace damacy::bench {

class Nvcomp {
 public:
  explicit Nvcomp(const std::string& path);  // empty: none
  [[nodiscard]] bool usable(GpuCodec codec) const { return entry(codec).decompress != nullptr; }
  [[nodiscard]] const std::string& why_not() const { return why_not_; }

  // Uploads the lists of one batch; decode then enqueues. The largest frame has `largest` bytes.
  void prepare(const std::vector<GpuFrame>& frames, std::uint64_t source, std::uint64_t destination,
               const Stream& stream);
  void decode(const Stream& stream);

 private:
  struct Options {  // both are small structs of zeros by default
    char zero[64];
  };
  using Decompress = int (*)(const void* const*, const std::size_t*, const std::size_t*, std::size_t*, std::size_t,
                             void*, std::size_t, void* const*, Options, int*, cudaStream_t);
  using TempSize = int (*)(std::size_t, std::size_t, Options, std::size_t*, std::size_t);
  struct Entry {
    Decompress decompress = nullptr;
    TempSize temp_size = nullptr;
  };
  [[nodiscard]] const Entry& entry(GpuCodec codec) const { return codec == GpuCodec::lz4 ? lz4_ : zstd_; }

  Entry zstd_, lz4_;
  std::string why_not_;
  GpuCodec codec_ = GpuCodec::zstd;
  std::size_t count_ = 0, temp_bytes_ = 0;
  DeviceBuffer lists_, temp_;
};

}  // namespace damacy::bench
