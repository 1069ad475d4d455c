// Rows of a shuffled chunk whose elements are what the shuffle took for elements: the bytes of a vector's elements come
// from as many planes as an element has bytes (eight times as many where bits were shuffled) and are put together in
// registers. A vector that two blocks of the chunk share, or at the very end of one, goes element by element. A block
// owns a tile of vectors, a thread every 256th of them.
#pragma once

#include "damacy/copy/cuda/bit_planes.h"
#include "damacy/copy/cuda/vectors.h"

namespace damacy::copy_cuda {

template <class From, class To, u8 kShuffle>
struct ShuffledKernel {
  static constexpr int kSize = sizeof(From);
  static constexpr int kCount = kShuffle == kShuffleBits ? kBitVectorOf<To> : kVectorOf<To>;
  using Raw = UnsignedOf<sizeof(From)>;

  DAMACY_ELEMENT static void run(const Group& group, u32 tile_index, u32 thread) {
    const Tile tile = find_tile(group, tile_index);
    const Record& record = *tile.record;
    const Rows rows(record);
    const Blocks blocks(record);
    const u32 swap = record.swap;
    const u32 begin = tile.index * kTileVectors + thread;
    DAMACY_NO_UNROLL
    for (u32 i = 0; i < kVectorsPerThread && begin + i * kThreads < rows.units; i += kAtOnce) {
      Job jobs[kAtOnce];
      DAMACY_UNROLL
      for (u32 k = 0; k < kAtOnce; ++k) start(record, rows, blocks, begin + (i + k) * kThreads, jobs[k]);
      DAMACY_UNROLL
      for (u32 k = 0; k < kAtOnce; ++k) finish(rows, swap, jobs[k]);
    }
  }

 private:
  using Planes = u32[kSize][kCount / 4];  // byte k of each element, four elements a word

  // What a thread needs of a record to find blocks, in registers.
  struct Blocks {
    u64 chunk;
    u32 chunk_bytes;
    u32 block_bytes;
    Divisor by_block;

    DAMACY_ELEMENT explicit Blocks(const Record& record)
        : chunk(record.chunk),
          chunk_bytes(static_cast<u32>(record.chunk_bytes)),
          block_bytes(record.block_bytes),
          by_block(record.by_block) {}

    DAMACY_ELEMENT Block<u32> find(u32 offset) const {
      const u32 begin = divide(offset, by_block) * block_bytes;
      const u32 rest = chunk_bytes - begin;
      return {chunk + begin, (rest < block_bytes ? rest : block_bytes) / kSize, offset - begin};
    }
  };

  // The words that a vector's bytes are in, one span a plane.
  struct FromBytes {
    Span<kCount> spans[kSize];

    DAMACY_ELEMENT bool fetch(const Block<u32>& block, const Part&, i32 first) {
      const Bounds bounds{block.address, block.address + u64{block.elements} * kSize};
      const u64 address = block.address + static_cast<u64>(i64{first});
      const u64 last = address + u64{block.elements} * (kSize - 1);
      if (!Span<kCount>::is_inside(bounds, address) || !Span<kCount>::is_inside(bounds, last)) return false;
      DAMACY_UNROLL
      for (int k = 0; k < kSize; ++k) spans[k].fetch(address + static_cast<u64>(k) * block.elements);
      return true;
    }

    DAMACY_ELEMENT void read(Planes& planes) const {
      DAMACY_UNROLL
      for (int k = 0; k < kSize; ++k) {
        DAMACY_UNROLL
        for (int i = 0; i < kCount / 4; ++i) planes[k][i] = spans[k].word(i);
      }
    }
  };

  struct FromBits {
    Planes planes = {};

    DAMACY_ELEMENT bool fetch(const Block<u32>& block, const Part& part, i32 first) {
      BitPlanes<kCount, kSize>(block, part, first).fetch(planes);
      return true;
    }

    DAMACY_ELEMENT void read(Planes& into) const {
      DAMACY_UNROLL
      for (int k = 0; k < kSize; ++k) {
        DAMACY_UNROLL
        for (int i = 0; i < kCount / 4; ++i) into[k][i] = planes[k][i];
      }
    }
  };

  static constexpr u32 kAtOnce = kShuffle == kShuffleBytes && kSize <= 2 ? 2 : 1;

  // A vector under way.
  struct Job {
    u64 dst;
    i32 first;  // as in Spot; behind the row where nothing is left to do
    std::conditional_t<kShuffle == kShuffleBytes, FromBytes, FromBits> source;
  };

  DAMACY_ELEMENT static void start(const Record& record, const Rows& rows, const Blocks& blocks, u32 unit, Job& job) {
    const Spot spot = find_spot<To, kCount>(rows, unit);
    const Part part = part_of<kCount>(rows, spot.first);
    job.dst = spot.dst;
    job.first = static_cast<i32>(rows.row_elements);
    if (part.low >= part.high) return;
    const u32 offset = static_cast<u32>(rows.src - blocks.chunk + static_cast<u64>(spot.row) +
                                        static_cast<u64>((spot.first + part.low) * i64{kSize}));
    const Block<u32> block = blocks.find(offset);
    const i32 first = static_cast<i32>(block.at / kSize) - part.low;  // of the vector, counted in its block
    const bool in_block = first + part.high <= static_cast<i32>(block.elements);
    if (in_block && job.source.fetch(block, part, first))
      job.first = spot.first;
    else
      place_apart(record, spot.dst, part, offset);
  }

  DAMACY_ELEMENT static void finish(const Rows& rows, u32 swap, const Job& job) {
    const Part part = part_of<kCount>(rows, job.first);
    if (part.low >= part.high) return;
    Planes planes;
    job.source.read(planes);
    Vector<From, To, kCount> vector;
    join(planes, vector.values);
    vector.swap(swap);
    vector.write(job.dst, part);
  }

  DAMACY_ELEMENT static void join(const Planes& planes, From* values) {
    DAMACY_UNROLL
    for (int i = 0; i < kCount / 4; ++i) {
      if constexpr (kSize == 1) {
        join_bytes(planes[0][i], values + 4 * i);
      } else if constexpr (kSize == 2) {
        join_pairs(planes[0][i], planes[1][i], values + 4 * i);
      } else {
        u32 low[4], high[4];
        join_fours(planes[0][i], planes[1][i], planes[2][i], planes[3][i], low);
        if constexpr (kSize == 8) join_fours(planes[4][i], planes[5][i], planes[6][i], planes[7][i], high);
        DAMACY_UNROLL
        for (int j = 0; j < 4; ++j) {
          Raw raw = low[j];
          if constexpr (kSize == 8) raw |= static_cast<u64>(high[j]) << 32;
          values[4 * i + j] = bits_as<From>(raw);
        }
      }
    }
  }

  DAMACY_ELEMENT static void join_bytes(u32 plane, From* values) {
    DAMACY_UNROLL
    for (int j = 0; j < 4; ++j) values[j] = bits_as<From>(static_cast<Raw>(plane >> (8 * j)));
  }

  DAMACY_ELEMENT static void join_pairs(u32 low, u32 high, From* values) {
    const u32 first = bytes_of<0x5140>(low, high);
    const u32 second = bytes_of<0x7362>(low, high);
    values[0] = bits_as<From>(static_cast<Raw>(first));
    values[1] = bits_as<From>(static_cast<Raw>(first >> 16));
    values[2] = bits_as<From>(static_cast<Raw>(second));
    values[3] = bits_as<From>(static_cast<Raw>(second >> 16));
  }

  DAMACY_ELEMENT static void join_fours(u32 a, u32 b, u32 c, u32 d, u32* values) {
    const u32 ab = bytes_of<0x5140>(a, b), cd = bytes_of<0x5140>(c, d);
    values[0] = bytes_of<0x5410>(ab, cd);
    values[1] = bytes_of<0x7632>(ab, cd);
    const u32 ab2 = bytes_of<0x7362>(a, b), cd2 = bytes_of<0x7362>(c, d);
    values[2] = bytes_of<0x5410>(ab2, cd2);
    values[3] = bytes_of<0x7632>(ab2, cd2);
  }

  // `offset`: of element part.low, as if the chunk were not shuffled.
  DAMACY_ELEMENT static void place_apart(const Record& record, u64 dst, const Part& part, u32 offset) {
    DAMACY_NO_UNROLL
    for (i32 i = part.low; i < part.high; ++i, offset += kSize) {
      From value = bits_as<From>(static_cast<Raw>(bytes_at(record, offset, kSize)));
      if (record.swap != 0) value = swapped(value, record.swap);
      store_element<To>(dst, i, value);
    }
  }
};

}  // namespace damacy::copy_cuda
