// Neighbouring pieces of one object become one read. Pure: numbers in, numbers out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "damacy/core/checked.h"
#include "damacy/core/limits.h"

namespace damacy {

// A requested range of an object; `id` is the caller's.
struct Piece {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t id = 0;
  friend bool operator==(const Piece&, const Piece&) = default;
};

// Serves the pieces [first, first + count) of the list it was made from.
struct MergedRead {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::size_t first = 0;
  std::size_t count = 0;
  friend bool operator==(const MergedRead&, const MergedRead&) = default;
};

// `sorted` by offset. Pieces may overlap and repeat. A read grows while gaps stay within `gap` and it within `cap`; a
// piece above `cap` is read alone, with those that lie inside it. `mostly_wanted`: and at most a quarter of it is in
// gaps.
[[nodiscard]] inline std::vector<MergedRead> coalesce(std::span<const Piece> sorted,
                                                      std::uint64_t gap = Limits::read_gap_bytes,
                                                      std::uint64_t cap = Limits::merged_read_bytes,
                                                      bool mostly_wanted = false) {
  std::vector<MergedRead> reads;
  std::uint64_t in_gaps = 0;  // of the last
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const Piece& piece = sorted[i];
    if (!reads.empty()) {
      MergedRead& last = reads.back();
      const std::uint64_t distance = piece.offset - last.offset;
      const auto reach = checked_add(distance, piece.size);
      const std::uint64_t between = distance <= last.size ? 0 : distance - last.size;
      const bool is_spare = mostly_wanted && reach && in_gaps + between > *reach / 4;
      if (between <= gap && reach && *reach <= std::max(cap, last.size) && !is_spare) {
        in_gaps += between;
        last.size = std::max(last.size, *reach);
        ++last.count;
        continue;
      }
    }
    reads.push_back({piece.offset, piece.size, i, 1});
    in_gaps = 0;
  }
  return reads;
}

}  // namespace damacy
