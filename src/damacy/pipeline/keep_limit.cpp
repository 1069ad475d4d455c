#include "damacy/pipeline/keep_limit.h"

#include <algorithm>
#include <limits>

#include "damacy/core/checked.h"
#include "damacy/core/formatted.h"
#include "damacy/core/text.h"

namespace damacy {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kNamedBatches = 3;

std::int64_t chosen(std::int64_t slot, const std::optional<FreeMemory>& free) {
  const std::int64_t wanted = std::max(std::int64_t{2} << 30, checked_mul<std::int64_t>(8, slot).value_or(kMost));
  if (!free) return wanted;
  const std::uint64_t part = free->bytes / (free->on_gpu ? 8 : 4);
  return static_cast<std::int64_t>(std::min(part, static_cast<std::uint64_t>(wanted)));
}

// Of max_gpu_memory_bytes, next to the slots that stay. check_gpu_memory() holds.
std::int64_t left_over(const Config& config, std::int64_t slot) {
  if (config.max_gpu_memory_bytes == 0) return kMost;
  return config.max_gpu_memory_bytes - config.device_buffer_bytes - config.n_batches * slot;
}

std::string list_text(const std::vector<std::int64_t>& ids, std::size_t most) {
  std::string out;
  for (std::size_t i = 0; i < std::min(ids.size(), most); ++i) out += text(i == 0 ? "" : ", ", ids[i]);
  return ids.size() > most ? formatted("{} (+{} more)", out, ids.size() - most) : out;
}

}  // namespace

KeepLimit keep_limit(const Config& config, std::int64_t slot, bool choose, const std::optional<FreeMemory>& free) {
  KeepLimit limit;
  limit.keep_bytes = config.keep_bytes.value_or(choose ? chosen(slot, free) : 0);
  limit.bytes = std::min(limit.keep_bytes, std::max<std::int64_t>(0, left_over(config, slot)));
  return limit;
}

std::string held_text(const Config& config, const KeepLimit& limit, std::int64_t slot, const Slots::Added& added,
                      const std::vector<std::int64_t>& held) {
  if (limit.keep_bytes == 0)
    return formatted("every slot is held by the consumer: release batch {} and drop their tensors, or raise n_batches",
                     list_text(held, held.size()));
  std::string all = formatted("every slot is held by the consumer: {} slots and {} added ones (keep_bytes {}",
                              config.n_batches, added.slots, limit.keep_bytes);
  const bool by_gpu_cap = limit.bytes < limit.keep_bytes;
  if (by_gpu_cap)
    all += formatted(", of which max_gpu_memory_bytes {} leaves {}", config.max_gpu_memory_bytes, limit.bytes);
  all += ')';
  if (!added.refusal.empty()) all += formatted("; no memory for another one: {}", added.refusal);
  all += formatted(": drop batches {}", list_text(held, kNamedBatches));
  if (added.refusal.empty()) all += formatted(", or raise {}", by_gpu_cap ? "max_gpu_memory_bytes" : "keep_bytes");
  if (added.slots == 0 && added.refusal.empty()) all += formatted("; one batch takes {} bytes", slot);
  return all;
}

}  // namespace damacy
