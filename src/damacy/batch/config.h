// What a pipeline is made with: its settings. Their check is pure: no file, no device, no clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "damacy/core/dims.h"
#include "damacy/core/dtype.h"
#include "damacy/device/device.h"

namespace damacy {

enum class OnError { raise, skip, fill };
enum class Verify {
  needed,  // what samples need is decoded and checked
  whole,   // every chunk is decoded to its end, and all of its starts, lengths and checksums are checked
};

// A value of the batch, exact whatever its type.
using Number = std::variant<double, std::int64_t, std::uint64_t>;

// An axis by its name or, where the name is empty, by its place: negative places count from the last axis, others count
// stored axes from the first.
struct AxisKey {
  std::string name;
  std::int64_t place = 0;
  friend bool operator==(const AxisKey&, const AxisKey&) = default;
};

// One number for all channels, or one for each.
struct ChannelNumbers {
  std::vector<double> values;
  bool by_channel = false;

  ChannelNumbers(double all) : values{all} {}
  ChannelNumbers(std::vector<double> each) : values(std::move(each)), by_channel(true) {}
  bool is(double all) const noexcept { return !by_channel && values.front() == all; }
  double of(std::size_t channel) const noexcept { return by_channel ? values[channel] : values.front(); }
};

enum class Rounding { truncate, nearest };

struct Pad {
  std::optional<AxisKey> axis = {};  // empty: every axis
  Border border = Border::edge;
  Number value = 0.0;  // with Border::constant
};

// What each field means is said in python/damacy/_pipeline/array_spec.py.
struct ArraySpec {
  std::optional<Dtype> dtype = {};  // of its rows; empty: Config::dtype
  std::optional<bool> cf = {};
  ChannelNumbers scale = 1.0;
  ChannelNumbers offset = 0.0;
  std::optional<Number> clip_low = {};
  std::optional<Number> clip_high = {};
  Rounding rounding = Rounding::truncate;
  std::optional<Number> missing = {};
  std::vector<Pad> pad = {};
  std::vector<std::int64_t> channels = {};  // empty: as the box has them
  std::optional<AxisKey> channel_axis = {};
  std::vector<std::string> axes = {};  // empty: as the array's metadata name them
  std::optional<std::vector<std::optional<AxisKey>>> order = {};
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
  std::optional<std::int64_t> lookahead_batches = {};  // empty: see lookahead_of()
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
  std::int64_t host_cache_bytes = 0;
  std::string shared_cache;  // a region of memory that processes share, by its name; empty: none
  std::int64_t shared_cache_bytes = 0;
  std::int64_t device_cache_bytes = 0;
  std::string disk_cache;  // a directory; empty: none
  std::int64_t disk_cache_bytes = 0;
  bool disk_cache_shared = false;
  Verify verify = Verify::needed;
  std::optional<std::int64_t> keep_bytes = {};
  // Empty: names as the first sample has them. Otherwise every sample has exactly these.
  std::vector<NamedArraySpec> arrays = {};
};

inline constexpr std::int64_t kMaxChunkUncompressedBytes = std::int64_t{1} << 30;

// Throws Error(inval, "arguments") for what no array can satisfy. `dtype`: of the rows.
void check_spec(const ArraySpec& spec, Dtype dtype);
// Throws Error(inval, "arguments") for the first field out of range, then for what a pipeline refuses.
void check_config(const Config& config);

// How many batches of accepted samples wait: as set, else more of them where samples are of remote stores, because
// these are asked for the objects of all batches that wait.
[[nodiscard]] std::int64_t lookahead_of(const Config& config, bool is_remote = false);

// The widest source element, in bytes.
[[nodiscard]] std::int64_t element_bytes_allowed(const Config& config);

}  // namespace damacy
