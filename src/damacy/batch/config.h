// The settings of a pipeline. The check is pure: no file, no device, no clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "damacy/core/dtype.h"
#include "damacy/device/bind.h"

namespace damacy {

enum class OnError { raise, skip, fill };
enum class GpuDecoderChoice { automatic, own, nvcomp };
enum class Verify {
  needed,  // what samples need is decoded and checked
  whole,   // every chunk is decoded to its end, and all of its starts, lengths and checksums are checked
};

// What is wanted of one array of samples.
struct ArraySpec {
  std::optional<Dtype> dtype = {};  // of its rows; empty: Config::dtype
};
struct NamedArraySpec {
  std::string name;  // empty: the only array of samples without names
  ArraySpec spec = {};
};

// What each field means is said in python/damacy/_pipeline/config.py. Bytes are bytes, counts are counts, 0 often means
// "no limit".
struct Config {
  std::int64_t batch_size = 0;  // samples per batch; required
  std::int64_t host_buffer_bytes = std::int64_t{1} << 30;
  std::int64_t device_buffer_bytes = std::int64_t{4} << 30;
  Dtype dtype = Dtype::f32;
  std::int64_t lookahead_batches = 2;
  std::int64_t n_io_threads = 4;
  std::int64_t n_compute_threads = 0;
  std::int64_t n_zarrs_meta_cache = 64;
  std::int64_t n_shards_meta_cache = 256;
  std::int64_t max_chunk_uncompressed_bytes = 0;
  std::int64_t max_gpu_memory_bytes = 0;
  std::int64_t max_bytes_per_element = 0;
  DeviceChoice device = {};
  std::int64_t n_batches = 2;
  OnError on_error = OnError::raise;
  std::optional<double> pop_timeout_s = {};
  std::int64_t cache_bytes = 0;
  GpuDecoderChoice gpu_decoder = GpuDecoderChoice::automatic;
  Verify verify = Verify::needed;
  std::optional<std::int64_t> keep_bytes = {};
  // Empty: names as the first sample has them. Otherwise every sample has exactly these.
  std::vector<NamedArraySpec> arrays = {};
};

inline constexpr std::int64_t kMaxChunkUncompressedBytes = std::int64_t{1} << 30;

// Throws Error(inval, "arguments") for the first field out of range, then for what a pipeline refuses.
void check_config(const Config& config);

// The widest source element, in bytes.
[[nodiscard]] std::int64_t element_bytes_allowed(const Config& config);

}  // namespace damacy
