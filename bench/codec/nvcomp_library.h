// nvCOMP's batched decompressors, opened at run time: which version, what its functions are called there.
// Nothing links it, and its headers are not needed. Knows no frames and enqueues nothing by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "damacy/codec/gpu_decoder.h"

namespace damacy::bench {

class NvcompLibrary {
 public:
  // What one call takes, all of it in device memory; lists have `count` entries each.
  struct Batch {
    const void* const* sources = nullptr;
    const std::size_t* source_bytes = nullptr;
    const std::size_t* room = nullptr;  // bytes of output that each may write
    std::size_t* produced = nullptr;    // bytes that each wrote
    std::size_t count = 0;
    void* temp = nullptr;
    std::size_t temp_bytes = 0;
    void* const* destinations = nullptr;
    int* verdicts = nullptr;  // kSuccess, or why not
  };
  static constexpr int kSuccess = 0;
  static constexpr int kOldestMajor = 5;
  static constexpr int kNewestMajor = 6;

  // Throws Error(inval, "arguments") if `file` is not nvCOMP of a supported version.
  explicit NvcompLibrary(const std::string& file);
  NvcompLibrary(const NvcompLibrary&) = delete;
  NvcompLibrary& operator=(const NvcompLibrary&) = delete;

  const std::string& version() const noexcept { return version_; }  // "5.2.0"

  // Device memory that a batch takes: `count` frames of at most `largest` decoded bytes, `total` together. Empty when
  // the library says that it cannot. Any thread; touches no device.
  std::optional<std::size_t> temp_bytes(GpuCodec codec, std::size_t count, std::size_t largest,
                                        std::size_t total) const;
  // Enqueues on `stream` (a CUstream), in the current context. kSuccess, or what the library says.
  int decompress(GpuCodec codec, const Batch& batch, std::uint64_t stream) const;

 private:
  struct Options {  // all of them are this long, and zeros are the defaults
    alignas(4) unsigned char zero[64];
  };
  using Status = int;
  using GetProperties = Status (*)(void*);
  using GetTempOf5 = Status (*)(std::size_t, std::size_t, Options, std::size_t*, std::size_t);
  using GetTempOf6 = Status (*)(std::size_t, std::size_t, Options, std::size_t*, std::size_t, void* stream);
  using Decompress = Status (*)(const void* const*, const std::size_t*, const std::size_t*, std::size_t*, std::size_t,
                                void*, std::size_t, void* const*, Options, int*, void* stream);
  struct Codec {
    Decompress decompress = nullptr;
    GetTempOf5 temp_of_5 = nullptr;  // one of the two
    GetTempOf6 temp_of_6 = nullptr;
  };

  Codec find(const std::string& file, const std::string& codec) const;
  const Codec& of(GpuCodec codec) const noexcept { return codec == GpuCodec::lz4 ? lz4_ : zstd_; }

  struct Closer {
    void operator()(void* handle) const noexcept;
  };
  std::unique_ptr<void, Closer> handle_;
  std::string version_;
  Codec zstd_, lz4_;
};

}  // namespace damacy::bench
