// Decides which entries of a full cache may make room. Recency alone fails: a set larger than the cache that is read in
// the same order each epoch evicts every chunk just before it is wanted again. So what is in the cache stays there, and
// the share of hits is capacity ÷ set in any order, until
//   1. most look-ups are of chunks that were never seen: the set has changed, and entries not used since then may go;
//   2. an entry is stale: it was not used for longer than chunks stay unused before they are used again.
// Time is counted in look-ups of chunks that were seen before: while a set is read for the first time, nothing becomes
// stale. Knows hashes of keys; not sizes, nor where entries are. One thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "damacy/cache/records.h"

namespace damacy {

class ReusePolicy {
 public:
  using Time = std::uint64_t;

  // Remembers about so many chunks that were missed. Of a larger set, some look as if they were never seen. If most do,
  // a change of the set is noticed only when the entries are stale.
  explicit ReusePolicy(std::size_t remembered) : memory_(remembered / kWays + 1) {}
  static constexpr std::size_t bytes_of(std::size_t remembered) noexcept {
    return Memory::bytes_of(remembered / kWays + 1);
  }
  // In memory of the caller, of that size; all zero: nothing was seen.
  ReusePolicy(std::span<std::byte> memory, std::size_t remembered) : memory_(memory, remembered / kWays + 1) {}

  // A look-up of an entry. The time of its last use is kept by the caller; the result is the new one.
  Time hit(Time last_used) noexcept;
  // A look-up of a chunk that is not among the `entries` in the cache.
  void miss(std::uint64_t hash, std::size_t entries) noexcept;
  // An entry has to go.
  void evicted(std::uint64_t hash, Time last_used) noexcept { remember(hash, last_used); }

  Time now() const noexcept { return memory_->now; }
  bool may_go(Time last_used) const noexcept;

 private:
  // A chunk that was seen. The tag has 31 bits of its hash: a wrong match only misjudges a chunk. 0: none.
  struct Seen {
    std::uint32_t tag = 0;
    std::uint32_t when = 0;
  };
  static constexpr std::size_t kWays = 8;
  using Bucket = std::array<Seen, kWays>;
  struct Head {
    Time now = 0;
    Time longest = 0;       // nearly the longest interval of late between two uses of a chunk, in quarters of a look-up
    Time unseen = 0;        // look-ups of chunks never seen, less the others, since `unseen_since`
    Time unseen_since = 0;  // until then most look-ups were of others
    Time changed = 0;       // when the set changed last
  };
  using Memory = Records<Head, Bucket>;

  Seen* find(std::uint64_t hash) noexcept;
  void remember(std::uint64_t hash, Time when) noexcept;
  Bucket& bucket_of(std::uint64_t hash) noexcept;
  void used_again_after(Time interval) noexcept;
  void never_seen(std::size_t entries) noexcept;

  Memory memory_;
};

}  // namespace damacy
