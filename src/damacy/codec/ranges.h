// Half-open byte ranges, used by partial decoding. Lists of them are sorted and disjoint; neighbours may touch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace damacy {

// Half-open, in bytes.
struct ByteRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  [[nodiscard]] std::uint64_t size() const noexcept { return end - begin; }
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

// Every byte of [begin, end) is in one of `ranges`.
[[nodiscard]] inline bool covers(std::span<const ByteRange> ranges, std::uint64_t begin, std::uint64_t end) noexcept {
  if (begin >= end) return true;
  auto range = std::ranges::partition_point(ranges, [&](const ByteRange& r) { return r.end <= begin; });
  for (; range != ranges.end() && range->begin <= begin; ++range) {
    begin = range->end > begin ? range->end : begin;
    if (begin >= end) return true;
  }
  return false;
}

// Sorts, and merges what overlaps or touches.
inline void merge_ranges(std::vector<ByteRange>& ranges) {
  std::ranges::sort(ranges, {}, &ByteRange::begin);
  std::size_t kept = 0;
  for (const ByteRange& range : ranges) {
    if (kept > 0 && range.begin <= ranges[kept - 1].end)
      ranges[kept - 1].end = std::max(ranges[kept - 1].end, range.end);
    else
      ranges[kept++] = range;
  }
  ranges.resize(kept);
}

}  // namespace damacy
