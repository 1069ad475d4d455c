// Rows of a shuffled chunk whose elements are what the shuffle took for elements: the bytes of a vector's elements come
// from as many planes as an element has bytes (eight times as many where bits were shuffled) and are put together in
// registers. A vector that two blocks of the chunk share goes element by element. A block owns a tile of vectors, a
// thread every 256th of them.
#pragma once

#include "damacy/copy/cuda/vectors.h"

namespace damacy::copy_cuda {

template <class From, class To>
struct ShuffledKernel {
  static constexpr int kCount = kVectorOf<To>;
  static constexpr int kPlanes = sizeof(From);
  static constexpr int kWords = kCount / 4;
  using Raw = UnsignedOf<sizeof(From)>;
  using Planes = u32[kPlanes][kWords];  // byte k of each element, four elements a word

  DAMACY_ELEMENT static void run(const Group& group, u32 tile_index, u32 thread) {
    const Tile tile = find_tile(group, tile_index);
    const Record& record = *tile.record;
    const Rows rows(record);
    u32 unit = tile.index * kTileVectors + thread;
    DAMACY_NO_UNROLL
    for (u32 i = 0; i < kVectorsPerThread && unit < rows.units; ++i, unit += kThreads) {
      const Spot spot = find_spot<To>(rows, unit);
      if (spot.low < spot.high) place(record, rows, spot);
    }
  }

 private:
  DAMACY_ELEMENT static void place(const Record& record, const Rows& rows, const Spot& spot) {
    const u32 offset = static_cast<u32>(rows.src - record.chunk + static_cast<u64>(spot.row) +
                                        static_cast<u64>((spot.first + spot.low) * i64{kPlanes}));
    const Block<u32> block = block_of(record, offset);
    const i32 first = static_cast<i32>(block.at / kPlanes) - spot.low;  // of the vector, counted in its block
    if (first + spot.high > static_cast<i32>(block.elements)) return place_apart(record, spot, offset);
    Planes planes;
    if (record.shuffle == kShuffleBytes)
      fetch_bytes(block, spot, first, planes);
    else
      fetch_bits(block, spot, first, planes);
    Vector<From, To> vector;
    join(planes, vector);
    vector.swap(record.swap);
    vector.write(spot);
  }

  DAMACY_ELEMENT static void fetch_bytes(const Block<u32>& block, const Spot& spot, i32 first, Planes& planes) {
    Span<kCount> spans[kPlanes];
    const Bounds bounds{block.address, block.address + u64{block.elements} * kPlanes};
    const u64 address = block.address + static_cast<u64>(i64{first});
    DAMACY_UNROLL
    for (int k = 0; k < kPlanes; ++k)
      spans[k].fetch(bounds, address + static_cast<u64>(k) * block.elements, spot.low, spot.high);
    DAMACY_UNROLL
    for (int k = 0; k < kPlanes; ++k) DAMACY_UNROLL
    for (int i = 0; i < kWords; ++i) planes[k][i] = spans[k].word(i);
  }

  // Eight elements have a byte in each of the bit planes; a vector's lie in one such group or in neighbours.
  DAMACY_ELEMENT static void fetch_bits(const Block<u32>& block, const Spot& spot, i32 first, Planes& planes) {
    constexpr int kGroups = (kCount + 14) / 8;
    const u32 into = static_cast<u32>(first) & 7u;
    const u32 plane_bytes = block.elements / 8;
    const u64 address = block.address + static_cast<u64>(static_cast<i64>(first >> 3));
    bool needed[kGroups];
    DAMACY_UNROLL
    for (int g = 0; g < kGroups; ++g) {
      const i32 begin = 8 * g - static_cast<i32>(into);
      needed[g] = begin + 8 > spot.low && begin < spot.high;
    }
    DAMACY_UNROLL
    for (int k = 0; k < kPlanes; ++k) {
      DAMACY_UNROLL
      for (int i = 0; i < kWords; ++i) planes[k][i] = 0;
      DAMACY_UNROLL
      for (int b = 0; b < 8; ++b) {
        const u64 plane = address + static_cast<u64>(8 * k + b) * plane_bytes;
        u32 bits = 0;
        DAMACY_UNROLL
        for (int g = 0; g < kGroups; ++g)
          if (needed[g]) bits |= static_cast<u32>(load<u8>(plane + static_cast<u64>(g))) << (8 * g);
        bits >>= into;
        DAMACY_UNROLL
        for (int i = 0; i < kWords; ++i) planes[k][i] |= spread(bits >> (4 * i)) << b;
      }
    }
  }

  DAMACY_ELEMENT static void join(const Planes& planes, Vector<From, To>& vector) {
    DAMACY_UNROLL
    for (int i = 0; i < kWords; ++i) {
      if constexpr (kPlanes == 1) {
        join_bytes(planes[0][i], vector.values + 4 * i);
      } else if constexpr (kPlanes == 2) {
        join_pairs(planes[0][i], planes[1][i], vector.values + 4 * i);
      } else {
        u32 low[4], high[4];
        join_fours(planes[0][i], planes[1][i], planes[2][i], planes[3][i], low);
        if constexpr (kPlanes == 8) join_fours(planes[4][i], planes[5][i], planes[6][i], planes[7][i], high);
        DAMACY_UNROLL
        for (int j = 0; j < 4; ++j) {
          Raw raw = low[j];
          if constexpr (kPlanes == 8) raw |= static_cast<u64>(high[j]) << 32;
          vector.values[4 * i + j] = bits_as<From>(raw);
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

  // `offset`: of element spot.low, as if the chunk were not shuffled.
  DAMACY_ELEMENT static void place_apart(const Record& record, const Spot& spot, u32 offset) {
    DAMACY_NO_UNROLL
    for (i32 i = spot.low; i < spot.high; ++i, offset += kPlanes) {
      From value = bits_as<From>(static_cast<Raw>(bytes_at(record, offset, kPlanes)));
      if (record.swap != 0) value = swapped(value, record.swap);
      store(spot.dst + sizeof(To) * i, bits_as<UnsignedOf<sizeof(To)>>(convert<To>(value)));
    }
  }
};

}  // namespace damacy::copy_cuda
