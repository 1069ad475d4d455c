// The tiles of a copy plan as a device reads them: one record per tile, with all numbers that do not depend on
// addresses. They are computed once, so that a block loads one record before it moves bytes. Knows pieces; not
// addresses.
#pragma once

#include <vector>

#include "damacy/copy/copy_plan.h"
#include "damacy/copy/gpu_plan/record.h"

namespace damacy::copy_cuda {

inline constexpr u32 kTransposeLeast = 8;  // extent of both axes from which on transposing pays
inline constexpr u32 kPartsLeast = 64;     // bytes of a row from which on parts wider than an element pay

// How the elements of a tile lie. Runs: along its last axis they lie side by side on both sides. Turned: along the last
// one they do so in the destination, along the one before in the source, and both are long. Apart: neither.
enum class Lie : u8 { runs, turned, apart };

struct alignas(16) TileRecord {
  static constexpr u32 kAxes = copy::Piece::kAxes;  // outermost first

  i64 src_offset;  // bytes from the slot's base to the first element
  i64 dst_offset;
  i32 src_stride[kAxes];  // bytes; 0 where the extent is 1
  i32 dst_stride[kAxes];
  u32 extent[kAxes];
  Divisor by[kAxes - 1];  // by extents 1 to 3
  Divisor by_8;           // by the number of parts of 8 and 16 bytes in a row, at least 1
  Divisor by_16;
  u32 src_slot;
  u32 dst_slot;
  u32 rows;  // all axes but the last
  Dtype from;
  Dtype to;
  u8 from_bytes;  // of an element
  u8 to_bytes;
  Lie lie;
  bool negate : 1;
  bool add : 1;
  u8 src_bits : 4;  // OR of the offsets of rows from the base, modulo 16; of each element's, unless rows are contiguous
  u8 dst_bits : 4;
};
static_assert(std::is_trivially_copyable_v<TileRecord> && sizeof(TileRecord) % 16 == 0);

// In the order of their numbers.
std::vector<TileRecord> tile_records(const copy::Phase& phase);

}  // namespace damacy::copy_cuda
