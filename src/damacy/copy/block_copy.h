// A block copy: copies an N-D source box to an N-D destination box of the same extents. Each side has its own signed
// byte strides, and an operation is applied to each element. Transposes, F order, flips and broadcasts (source stride
// 0) are strides. Byte order and casts are the operation. Knows bytes and strides; not zarr, not threads, not devices.
#pragma once

#include <cstddef>
#include <span>

#include "damacy/copy/block.h"

namespace damacy {

// Runs a normalised copy. First checks that every byte it accesses is inside the spans (otherwise Error inval: a bug in
// the caller). The source may have any alignment. Source and destination must not overlap. `written_together`: bytes
// that are written before any of them is read, if more than `dst` (for a row: the batch). Outputs too large for a cache
// use non-temporal stores.
void run_block_copy(const BlockCopy& copy, std::span<const std::byte> src, std::span<std::byte> dst,
                    std::size_t written_together = 0);

// The same for several copies, of which none writes what another does. Faster where the outputs are too large for a
// cache, and copies whose rows lie next to each other follow each other, from left to right.
void run_block_copies(std::span<const SourcedCopy> copies, std::span<std::byte> dst, std::size_t written_together = 0);

// Whether outputs of so many bytes are too large for a cache.
[[nodiscard]] bool is_streamed(std::size_t written_together) noexcept;

}  // namespace damacy
