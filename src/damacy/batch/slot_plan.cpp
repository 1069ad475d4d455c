#include "damacy/batch/slot_plan.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "damacy/core/checked.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

std::int64_t chosen(std::int64_t slot, const Machine& machine) {
  const std::int64_t wanted = std::max(std::int64_t{2} << 30, checked_mul<std::int64_t>(8, slot).value_or(kMost));
  const auto& free = machine.gpu ? machine.gpu_bytes : machine.host_bytes;
  if (!free) return wanted;
  return static_cast<std::int64_t>(std::min(*free / (machine.gpu ? 8 : 4), static_cast<std::uint64_t>(wanted)));
}

// Of max_gpu_memory_bytes, next to the slots that stay. check_gpu_memory() holds.
std::int64_t left_over(const Config& config, std::int64_t slot) {
  if (config.max_gpu_memory_bytes == 0) return kMost;
  return config.max_gpu_memory_bytes - config.device_buffer_bytes - config.device_cache_bytes - config.n_batches * slot;
}

void check_memory(const Config& config, std::int64_t slot, std::uint64_t physical_bytes) {
  const auto memory = static_cast<std::int64_t>(physical_bytes);
  if (slot <= memory / config.n_batches) return;
  const std::int64_t fitting = memory / config.n_batches / (slot / config.batch_size);
  throw Error(
      Status::oom,
      formatted("{} batches of {} bytes exceed the machine's memory of {} bytes: {}", config.n_batches, slot, memory,
                fitting > 0 ? formatted("a batch_size of at most {} would fit", fitting)
                            : std::string("samples must be smaller, or of a shorter dtype")),
      "memory");
}

}  // namespace

std::int64_t array_slot_bytes(std::int64_t batch_size, std::int64_t elements_per_sample, Dtype dtype) {
  const auto elements = checked_mul(elements_per_sample, batch_size);
  const auto bytes = elements ? checked_mul(*elements, static_cast<std::int64_t>(size_of(dtype))) : std::nullopt;
  const auto padded = bytes ? checked_add<std::int64_t>(*bytes, kBatchAlignment - 1) : std::nullopt;
  if (!padded)
    throw Error(
        Status::oom,
        formatted("a batch of {} samples of {} elements is beyond 2**63 bytes", batch_size, elements_per_sample),
        "memory");
  return *padded / kBatchAlignment * kBatchAlignment;
}

void check_gpu_memory(const Config& c, std::int64_t bytes_of_one_slot) {
  if (c.max_gpu_memory_bytes == 0) return;
  const auto slots = checked_mul(bytes_of_one_slot, c.n_batches);
  const auto buffers = checked_add(c.device_buffer_bytes, c.device_cache_bytes);
  const auto all = slots && buffers ? checked_add(*slots, *buffers) : std::nullopt;
  if (all && *all <= c.max_gpu_memory_bytes) return;
  throw Error(
      Status::oom,
      formatted("device_buffer_bytes {}{}{} max_gpu_memory_bytes {}{}", c.device_buffer_bytes,
                c.device_cache_bytes > 0 ? formatted(" and device_cache_bytes {}", c.device_cache_bytes) : "",
                bytes_of_one_slot > 0 ? formatted(" and {} batches of {} bytes exceed", c.n_batches, bytes_of_one_slot)
                                      : " exceeds",
                c.max_gpu_memory_bytes, all ? formatted("; {} would fit", *all) : std::string()),
      "gpu-memory");
}

KeepLimit keep_limit(const Config& config, const Machine& machine, std::int64_t slot, bool choose) {
  KeepLimit limit;
  limit.keep_bytes = config.keep_bytes.value_or(choose ? chosen(slot, machine) : 0);
  limit.bytes = std::min(limit.keep_bytes, std::max<std::int64_t>(0, left_over(config, slot)));
  return limit;
}

SlotPlan plan_slots(const Config& config, const Machine& machine, std::int64_t bytes_of_one_slot, bool choose) {
  check_gpu_memory(config, bytes_of_one_slot);
  check_memory(config, bytes_of_one_slot, machine.physical_bytes);
  return {config.n_batches, bytes_of_one_slot, keep_limit(config, machine, bytes_of_one_slot, choose)};
}

}  // namespace damacy
