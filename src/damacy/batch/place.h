// Copies from a decoded chunk to the rows that use it: boxes become block copies. Knows chunks and rows; not reading,
// not decoding.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "damacy/codec/chain.h"
#include "damacy/core/dims.h"
#include "damacy/zarr/array.h"
#include "damacy/zarr/metadata.h"

namespace damacy {

class BatchJob;

// The part of a chunk that a row uses, in the array's coordinates.
[[nodiscard]] Box wanted(const BatchJob& job, std::size_t row, const Box& chunk);

// Appends the byte interval of a decoded chunk that holds `part`, an intersection with the chunk's box.
[[nodiscard]] ByteRange bytes_of(const Array& array, const Box& chunk, const Box& part) noexcept;
// Sorted and disjoint.
void merge_ranges(std::vector<ByteRange>& ranges);

// The same box, counted from the start of another.
[[nodiscard]] Box relative_to(Box part, const Box& whole) noexcept;

// Copies `part` of the decoded chunk, uncast, to `out`, row-major.
void crop_chunk(const Array& array, const Box& chunk, const Box& part, std::span<const std::byte> decoded,
                std::span<std::byte> out);

// Copies `part` of the decoded chunk into the row, cast. Counts the elements placed.
void place_chunk(BatchJob& job, std::size_t row, const Box& chunk, const Box& part, std::span<const std::byte> decoded);
// Writes the array's fill value over `part`, relative to the row's own box.
void place_fill(BatchJob& job, std::size_t row, const Box& part);

}  // namespace damacy
