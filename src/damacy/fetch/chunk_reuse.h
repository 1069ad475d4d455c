// How large the chunks are that batches wanted so far, each counted once, and how much of what was wanted had been
// wanted before. Estimated from a sample of all chunks, in memory of a fixed size: chunks are in it if their hash is
// small, so that a chunk is in it always or never. Knows hashes and sizes. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace damacy {

class ChunkReuse {
 public:
  static constexpr std::size_t kMostSampled = 2048;  // an estimate is off by about 1 / sqrt of half of it: 3 %

  struct Seen {
    double again = 0;                       // of the encoded bytes that were wanted: of chunks wanted before, 0 to 1
    double encoded_bytes = 0;               // of all chunks, each once
    double decoded_bytes = 0;               // the same
    std::uint64_t largest_chunk_bytes = 0;  // decoded, in the sample
  };

  ChunkReuse() : slots_(2 * kMostSampled) {}

  // A chunk that a batch wants. All bits of `hash` depend on its identity.
  void add(std::uint64_t hash, std::uint64_t encoded_bytes, std::uint64_t decoded_bytes) {
    if (hash > limit_) return;
    add_sampled(std::max<std::uint64_t>(hash, 1), encoded_bytes, decoded_bytes);
  }
  Seen seen() const noexcept;
  void reset() noexcept;

 private:
  struct Slot {
    std::uint64_t hash = 0;  // 0: free
    std::uint64_t encoded = 0, decoded = 0;
    std::uint64_t times = 0;
  };

  void add_sampled(std::uint64_t hash, std::uint64_t encoded_bytes, std::uint64_t decoded_bytes);
  Slot& slot_of(std::uint64_t hash) noexcept;
  void sample_half() noexcept;

  std::vector<Slot> slots_;  // open addressing, in the order of hashes as far as there is room
  std::size_t sampled_ = 0;
  std::uint64_t limit_ = ~std::uint64_t{0};
};

}  // namespace damacy
