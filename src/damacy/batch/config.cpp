#include "damacy/batch/config.h"

#include <cmath>

#include "damacy/cache/disk/disk_tier.h"
#include "damacy/cache/shared/region_memory.h"
#include "damacy/cache/shared/shared_entries.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"

namespace damacy {
namespace {

void at_least(const char* name, std::int64_t value, std::int64_t least) {
  if (value < least)
    throw Error(Status::inval, formatted("{} must be >= {} (got {})", name, least, value), "arguments");
}

void check_dtype(const char* of, Dtype dtype) {
  if (!is_batch_dtype(dtype))
    throw Error(Status::inval, formatted("{} must be an element type of batches (got {})", of, static_cast<int>(dtype)),
                "arguments");
}

void check_arrays(const Config& config) {
  const std::vector<NamedArraySpec>& arrays = config.arrays;
  if (arrays.size() > Limits::arrays_per_sample)
    throw Error(Status::inval,
                formatted("arrays has {} names, the limit is {}", arrays.size(), Limits::arrays_per_sample), "limit");
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const std::string& name = arrays[i].name;
    if (name.empty() && arrays.size() > 1)
      throw Error(Status::inval, "arrays: a name must not be empty where there are several", "arguments");
    for (std::size_t other = 0; other < i; ++other)
      if (arrays[other].name == name)
        throw Error(Status::inval, formatted("arrays: '{}' occurs twice", name), "arguments");
    if (arrays[i].spec.dtype) check_dtype("dtype of an ArraySpec", *arrays[i].spec.dtype);
    try {
      check_spec(arrays[i].spec, arrays[i].spec.dtype.value_or(config.dtype));
    } catch (const Error& error) {
      throw name.empty() ? error : Error(error).at_array(name);
    }
  }
}

void at_most(const char* name, std::int64_t value, std::int64_t most) {
  if (value > most) throw Error(Status::inval, formatted("{} must be <= {} (got {})", name, most, value), "limit");
}

void check_shared_cache(const Config& config) {
  const auto refuse = [](std::string text) { throw Error(Status::inval, std::move(text), "arguments"); };
  if (config.shared_cache.empty()) {
    if (config.shared_cache_bytes == 0) return;
    refuse(formatted("shared_cache_bytes needs a name in shared_cache (got {})", config.shared_cache_bytes));
  }
  if (!is_region_name(config.shared_cache))
    refuse(formatted("the name of a shared cache has 1 to 64 letters, digits, '.', '-' and '_' (got '{}')",
                     config.shared_cache));
  at_least("shared_cache_bytes", config.shared_cache_bytes, static_cast<std::int64_t>(SharedSizes::kLeastBytes));
  if (config.host_cache_bytes > 0)
    refuse(formatted("host_cache_bytes and a shared cache exclude each other: set one of them (got {} and '{}')",
                     config.host_cache_bytes, config.shared_cache));
}

}  // namespace

void check_config(const Config& c) {
  at_least("batch_size", c.batch_size, 1);
  at_least("lookahead_batches", lookahead_of(c), 2);
  at_least("n_io_threads", c.n_io_threads, 1);
  at_least("n_compute_threads", c.n_compute_threads, 0);
  if (c.host_buffer_bytes <= 0 || c.device_buffer_bytes <= 0)
    throw Error(Status::inval,
                formatted("host_buffer_bytes and device_buffer_bytes must be > 0 (got {} and {})", c.host_buffer_bytes,
                          c.device_buffer_bytes),
                "arguments");
  at_least("max_chunk_uncompressed_bytes", c.max_chunk_uncompressed_bytes, 0);
  check_dtype("dtype", c.dtype);
  at_least("n_zarrs_meta_cache", c.n_zarrs_meta_cache, 1);
  at_least("n_shards_meta_cache", c.n_shards_meta_cache, 1);
  at_least("max_gpu_memory_bytes", c.max_gpu_memory_bytes, 0);
  at_least("max_bytes_per_element", c.max_bytes_per_element, 0);
  at_least("n_batches", c.n_batches, 1);
  if (c.pop_timeout_s && !(std::isfinite(*c.pop_timeout_s) && *c.pop_timeout_s >= 0))
    throw Error(Status::inval,
                formatted("pop_timeout_s must be None or a finite number >= 0 (got {})", *c.pop_timeout_s),
                "arguments");
  at_least("cache_bytes", c.cache_bytes, 0);
  at_least("host_cache_bytes", c.host_cache_bytes, 0);
  check_shared_cache(c);
  at_least("device_cache_bytes", c.device_cache_bytes, 0);
  at_least("disk_cache_bytes", c.disk_cache_bytes,
           c.disk_cache.empty() ? 0 : static_cast<std::int64_t>(DiskTierSizes::kLeastBytes));
  if (c.disk_cache.empty() && c.disk_cache_bytes > 0)
    throw Error(Status::inval,
                formatted("disk_cache_bytes needs a directory in disk_cache (got {})", c.disk_cache_bytes),
                "arguments");
  if (c.disk_cache.find('\0') != std::string::npos)
    throw Error(Status::inval, "disk_cache is a path, and holds a NUL", "arguments");
  at_least("keep_bytes", c.keep_bytes.value_or(0), 0);
  check_arrays(c);

  const auto threads = static_cast<std::int64_t>(Limits::threads);
  at_most("n_io_threads", c.n_io_threads, threads);
  at_most("n_compute_threads", c.n_compute_threads, threads);
  at_most("max_chunk_uncompressed_bytes", c.max_chunk_uncompressed_bytes, kMaxChunkUncompressedBytes);
  at_most("max_bytes_per_element", c.max_bytes_per_element, 8);
}

std::int64_t lookahead_of(const Config& c, bool is_far) {
  constexpr std::int64_t kNear = 2, kFar = 8;
  return c.lookahead_batches.value_or(is_far ? kFar : kNear);
}

std::int64_t element_bytes_allowed(const Config& c) {
  return c.max_bytes_per_element > 0 ? c.max_bytes_per_element : 8;
}

}  // namespace damacy
