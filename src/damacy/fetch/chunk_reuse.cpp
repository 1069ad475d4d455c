#include "damacy/fetch/chunk_reuse.h"

#include <utility>

namespace damacy {

// The low bits choose the slot: the high ones are alike in a sample of small hashes.
ChunkReuse::Slot& ChunkReuse::slot_of(std::uint64_t hash) noexcept {
  std::size_t at = hash % slots_.size();
  while (slots_[at].hash != 0 && slots_[at].hash != hash) at = (at + 1) % slots_.size();
  return slots_[at];
}

void ChunkReuse::add_sampled(std::uint64_t hash, std::uint64_t encoded_bytes, std::uint64_t decoded_bytes) {
  Slot& slot = slot_of(hash);
  ++slot.times;
  if (slot.hash == hash) return;
  slot = {hash, encoded_bytes, decoded_bytes, 1};
  if (++sampled_ > kMostSampled) sample_half();
}

// Allocates nothing: each chunk that stays is taken out and put in again.
void ChunkReuse::sample_half() noexcept {
  while (sampled_ > kMostSampled) {
    limit_ /= 2;
    for (Slot& slot : slots_)
      if (slot.hash > limit_) {
        slot = {};
        --sampled_;
      }
  }
  // Twice: an entry whose run passes the end of the table finds its place in the second round.
  for (int round = 0; round < 2; ++round)
    for (Slot& slot : slots_) {
      const Slot moved = std::exchange(slot, {});
      if (moved.hash != 0) slot_of(moved.hash) = moved;
    }
}

ChunkReuse::Seen ChunkReuse::seen() const noexcept {
  Seen seen;
  double wanted = 0;
  for (const Slot& slot : slots_) {
    wanted += static_cast<double>(slot.encoded) * static_cast<double>(slot.times);
    seen.encoded_bytes += static_cast<double>(slot.encoded);
    seen.decoded_bytes += static_cast<double>(slot.decoded);
    seen.largest_chunk_bytes = std::max(seen.largest_chunk_bytes, slot.decoded);
  }
  if (wanted > 0) seen.again = 1 - seen.encoded_bytes / wanted;
  const double all = static_cast<double>(~std::uint64_t{0}) / static_cast<double>(limit_);
  seen.encoded_bytes *= all;
  seen.decoded_bytes *= all;
  return seen;
}

void ChunkReuse::reset() noexcept {
  std::fill(slots_.begin(), slots_.end(), Slot{});
  sampled_ = 0;
  limit_ = ~std::uint64_t{0};
}

}  // namespace damacy
