#include "damacy/pipeline/held_text.h"

#include <algorithm>

#include "damacy/core/formatted.h"

namespace damacy {
namespace {

constexpr std::size_t kNamedBatches = 3;

std::string list_text(const std::vector<std::int64_t>& ids, std::size_t most) {
  std::string out;
  for (std::size_t i = 0; i < std::min(ids.size(), most); ++i) out += formatted("{}{}", i == 0 ? "" : ", ", ids[i]);
  return ids.size() > most ? formatted("{} (+{} more)", out, ids.size() - most) : out;
}

}  // namespace

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
