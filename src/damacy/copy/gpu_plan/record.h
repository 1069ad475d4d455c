// The records that placing kernels read: one per placement, in groups for one kernel each, cut into tiles of equal
// work. One source for host and device. Knows addresses and numbers; not how records are made (plan.h).
#pragma once

#include <cstdint>
#include <type_traits>

#include "damacy/copy/block_copy.h"
#include "damacy/copy/convert.h"
#include "damacy/copy/finish.h"

namespace damacy::copy_cuda {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i32 = std::int32_t;
using i64 = std::int64_t;

inline constexpr u32 kThreads = 256;  // of a block
// Of a tile that is stored by vectors. Small tiles pay: neighbours in a row of the destination are placed from
// different chunks, and should not be written long after each other (measured: twice as many cost a third of the
// speed).
inline constexpr u32 kVectorsPerThread = 4;
inline constexpr u32 kElementsPerThread = 16;
inline constexpr u32 kTileVectors = kThreads * kVectorsPerThread;
inline constexpr u32 kTileElements = kThreads * kElementsPerThread;
inline constexpr u32 kNearOfRecord = 32;  // entries of Group::near at most, less one a launch
inline constexpr u32 kOuterAxes = 6;      // around rows

// Division by a number that is known before: of anything below 2^31.
struct Divisor {
  u32 mul;
  u32 shift;
};

struct RecordAxis {
  i64 src_stride;
  i64 dst_stride;
  u64 extent;
  Divisor by_extent;
};

// Bytes of `from` lie in rows, `src_step` apart; elements of a row of the destination lie side by side.
struct alignas(16) Record {
  u64 chunk;  // address
  u64 chunk_bytes;
  i64 src_offset;   // from the chunk's first byte to the box's first element, as if it were not shuffled
  i64 src_step;     // 0: a row is one value
  u64 reach_begin;  // addresses of what lies between the first byte that the box touches and the last, unshuffled
  u64 reach_end;
  u64 dst;  // address of the first element
  u64 row_elements;
  u64 units;  // in all: slots (rows of vectors) or elements
  u32 slots;  // a row's
  Divisor by_slots;
  u32 block_bytes;  // of a shuffled chunk
  u32 finish;       // into Group::finishes, of kFinished and kHugeFinished
  Divisor by_block;
  u8 from;  // Dtypes, and their sizes
  u8 to;
  u8 from_bytes;
  u8 to_bytes;
  u8 swap;     // bytes of what is turned round, 0: nothing
  u8 shuffle;  // a ChunkLayout::Shuffle
  u8 typesize;
  u8 outer_axes;
  RecordAxis axes[kOuterAxes];  // the first varies fastest
};
static_assert(std::is_trivially_copyable_v<Record>);

// The records of one launch. Tile t belongs to the last record whose first tile is at most t. That record is between
// near[t >> shift] and near[(t >> shift) + 1]; if shift is 0, it is the first of these. For usual waves shift is 0, so
// that a block finds its record fast; a row of gigabytes needs a shift.
struct Group {
  const Record* records;
  const u32* first_tiles;
  const u32* near;
  const Finish* finishes;
  u32 shift;
};

struct Tile {
  const Record* record;
  u32 index;  // in the record
};

DAMACY_ELEMENT Tile find_tile(const Group& group, u32 tile) {
  u32 low = group.near[tile >> group.shift];
  u32 high = group.shift == 0 ? low : group.near[(tile >> group.shift) + 1];
  while (low < high) {
    const u32 middle = low + (high - low + 1) / 2;
    if (group.first_tiles[middle] <= tile)
      low = middle;
    else
      high = middle - 1;
  }
  return {group.records + low, tile - group.first_tiles[low]};
}

// The conversions that have kernels of their own. A move is one of the unsigned integer of its size.
template <Dtype kFrom, Dtype kTo>
struct Op {
  static constexpr CopyOp kOp{kFrom, kTo, false};
  using From = Element<kFrom>;
  using To = Element<kTo>;
};
template <class... Ops>
struct OpList {
  static constexpr u32 kCount = sizeof...(Ops);
  static constexpr CopyOp kOps[] = {Ops::kOp...};
};
// clang-format off
using RowOps = OpList<
    Op<Dtype::u8, Dtype::u8>, Op<Dtype::u16, Dtype::u16>, Op<Dtype::u32, Dtype::u32>, Op<Dtype::u64, Dtype::u64>,
    Op<Dtype::boolean, Dtype::boolean>,
    Op<Dtype::u8, Dtype::f32>, Op<Dtype::u8, Dtype::bf16>, Op<Dtype::u8, Dtype::f16>,
    Op<Dtype::u16, Dtype::f32>, Op<Dtype::u16, Dtype::bf16>, Op<Dtype::u16, Dtype::f16>,
    Op<Dtype::i16, Dtype::f32>, Op<Dtype::i16, Dtype::bf16>, Op<Dtype::i16, Dtype::f16>,
    Op<Dtype::f32, Dtype::bf16>, Op<Dtype::f32, Dtype::f16>,
    Op<Dtype::i8, Dtype::f32>, Op<Dtype::u32, Dtype::f32>, Op<Dtype::i32, Dtype::f32>, Op<Dtype::f16, Dtype::f32>,
    Op<Dtype::bf16, Dtype::f32>, Op<Dtype::f64, Dtype::f32>, Op<Dtype::boolean, Dtype::f32>>;
using ShuffledOps = OpList<
    Op<Dtype::u16, Dtype::u16>, Op<Dtype::u32, Dtype::u32>, Op<Dtype::u64, Dtype::u64>,
    Op<Dtype::u16, Dtype::f32>, Op<Dtype::u16, Dtype::bf16>, Op<Dtype::u16, Dtype::f16>,
    Op<Dtype::i16, Dtype::f32>, Op<Dtype::i16, Dtype::bf16>, Op<Dtype::i16, Dtype::f16>,
    Op<Dtype::f32, Dtype::bf16>, Op<Dtype::f32, Dtype::f16>,
    Op<Dtype::u32, Dtype::f32>, Op<Dtype::i32, Dtype::f32>, Op<Dtype::f64, Dtype::f32>>;
using BitShuffledOps = OpList<
    Op<Dtype::u8, Dtype::u8>, Op<Dtype::u8, Dtype::f32>,
    Op<Dtype::u16, Dtype::u16>, Op<Dtype::u32, Dtype::u32>, Op<Dtype::u64, Dtype::u64>,
    Op<Dtype::u16, Dtype::f32>, Op<Dtype::u16, Dtype::bf16>, Op<Dtype::u16, Dtype::f16>,
    Op<Dtype::i16, Dtype::f32>, Op<Dtype::i16, Dtype::bf16>, Op<Dtype::i16, Dtype::f16>,
    Op<Dtype::f32, Dtype::bf16>, Op<Dtype::f32, Dtype::f16>,
    Op<Dtype::u32, Dtype::f32>, Op<Dtype::i32, Dtype::f32>, Op<Dtype::f64, Dtype::f32>>;
// clang-format on

// Kernels by number: those of RowOps, those of the shuffled ones, two for all else, and two for what is finished.
inline constexpr u32 kFirstRows = 0;
inline constexpr u32 kFirstShuffled = kFirstRows + RowOps::kCount;
inline constexpr u32 kFirstBitShuffled = kFirstShuffled + ShuffledOps::kCount;
inline constexpr u32 kElements = kFirstBitShuffled + BitShuffledOps::kCount;
inline constexpr u32 kHugeElements = kElements + 1;  // where 32 bits do not do
inline constexpr u32 kFinished = kHugeElements + 1;
inline constexpr u32 kHugeFinished = kFinished + 1;

// Elements that one thread stores at once: of 16 bytes, or of 32 where that would be too few for a word of each plane.
template <class To>
inline constexpr int kVectorOf = sizeof(To) == 8 ? 4 : static_cast<int>(16 / sizeof(To));

// The same from bit planes, of which each byte holds eight.
template <class To>
inline constexpr int kBitVectorOf = kVectorOf<To> < 8 ? 8 : kVectorOf<To>;

}  // namespace damacy::copy_cuda
