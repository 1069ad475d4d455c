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

// Where the threads of a pipeline run.
enum class ThreadCores {
  rank,  // on this rank's share of the host's cores, where a launcher says which rank of how many it is
  all,   // on all cores of the process
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

// What is wanted of one array of samples. Elements are unpacked (cf), scaled, converted to `dtype`, then clipped.
struct ArraySpec {
  std::optional<Dtype> dtype = {};  // of its rows; empty: Config::dtype
  std::optional<bool> cf = {};  // true: by CF's attributes, as xarray does; empty: no, with a warning for packed arrays
  ChannelNumbers scale = 1.0;   // x * scale + offset; finite
  ChannelNumbers offset = 0.0;
  std::optional<Number> clip_low = {};  // in `dtype`, applied last; empty: none
  std::optional<Number> clip_high = {};
  Rounding rounding = Rounding::truncate;    // to an integer type; nearest: ties to even
  std::optional<Number> missing = {};        // the value of missing elements; empty: NaN
  std::vector<Pad> pad = {};                 // what lies beyond the array; empty: boxes do not cross its border
  std::vector<std::int64_t> channels = {};   // indices on the channel axis; empty: as the box has them
  std::optional<AxisKey> channel_axis = {};  // empty: that of a stack, else c, channel, band or variable
  std::vector<std::string> axes = {};        // of the stored axes; empty: as the array's metadata name them
  std::optional<std::vector<std::optional<AxisKey>>> order = {};  // of the row; an empty entry: a new axis of 1
};

struct NamedArraySpec {
  std::string name;  // empty: the only array of samples without names
  ArraySpec spec = {};
};

// Settings of a pipeline. Names and defaults are those of Python's Config, whose page has more on each. Buffers are
// hard caps.
struct Config {
  std::int64_t batch_size = 0;                               // samples per batch; required
  std::int64_t host_buffer_bytes = std::int64_t{1} << 30;    // staging memory for reads; page-locked for a GPU
  std::int64_t device_buffer_bytes = std::int64_t{4} << 30;  // for encoded and decoded chunks; on the host for scratch
  Dtype dtype = Dtype::f32;                                  // of batches
  std::optional<std::int64_t> lookahead_batches = {};        // accepted samples, in batches; empty: lookahead_of()
  std::int64_t n_io_threads = 4;                             // reader threads; on the host they also decode and place
  std::int64_t n_compute_threads = 0;                        // workers in addition to these; 0: none
  std::int64_t n_zarrs_meta_cache = 64;    // arrays whose metadata are cached; the least recently used is evicted
  std::int64_t n_shards_meta_cache = 256;  // shard indices that are cached, likewise
  std::int64_t max_chunk_uncompressed_bytes = 0;  // of a decoded chunk; 0: any that the buffers can hold
  std::int64_t max_gpu_memory_bytes = 0;          // of all device memory of the pipeline; 0: no limit
  std::int64_t max_bytes_per_element = 0;         // of the stored type; 0: 8
  DeviceChoice device = {};                       // of batches
  std::int64_t n_batches = 2;                     // slots: batches that are held or in production
  OnError on_error = OnError::raise;              // of a sample that fails after it was accepted
  std::optional<double> pop_timeout_s = {};       // empty: no timeout; 0: never waits
  std::int64_t cache_bytes = 0;                   // for decoded chunks; only for batches on the host; 0: none
  std::int64_t host_cache_bytes = 0;              // page-locked, for encoded chunks; only for batches on a GPU; 0: none
  std::string shared_cache;                       // a region of memory that processes share, by its name; empty: none
  std::int64_t shared_cache_bytes = 0;            // its size, required with it
  std::int64_t device_cache_bytes = 0;            // GPU memory for encoded chunks; only for batches on a GPU; 0: none
  std::string disk_cache;                         // a directory; empty: none
  std::int64_t disk_cache_bytes = 0;              // at least 256 MiB, required with it
  bool disk_cache_shared = false;                 // other users of the directory's group may use it, too
  Verify verify = Verify::needed;
  ThreadCores thread_cores = ThreadCores::rank;
  std::optional<std::int64_t> keep_bytes = {};  // for slots beyond n_batches while batches are held; empty: 0
  // Empty: names as the first sample has them. Otherwise every sample has exactly these.
  std::vector<NamedArraySpec> arrays = {};
};

inline constexpr std::int64_t kMaxChunkUncompressedBytes = std::int64_t{1} << 30;

// Throws Error(inval, "arguments") for what no array can satisfy. `dtype`: of the rows.
void check_spec(const ArraySpec& spec, Dtype dtype);
// Throws Error(inval, "arguments") for the first field out of range, then for what a pipeline refuses.
void check_config(const Config& config);

// How many batches of accepted samples wait: as set, else 2, or 8 to look far ahead: remote stores are asked for the
// objects of all batches that wait, and a device decodes chunks of several small batches together.
[[nodiscard]] std::int64_t lookahead_of(const Config& config, bool is_far = false);

// The widest source element, in bytes.
[[nodiscard]] std::int64_t element_bytes_allowed(const Config& config);

}  // namespace damacy
