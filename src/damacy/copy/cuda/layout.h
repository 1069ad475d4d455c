// Where the bytes of a shuffled chunk are, one at a time. `Index` is an unsigned integer that
// holds the chunk's size. Knows a record's layout; not what its elements are.
#pragma once

#include "damacy/copy/cuda/words.h"
#include "damacy/copy/placement.h"

namespace damacy::copy_cuda {

inline constexpr u8 kShufflePlain = static_cast<u8>(ChunkLayout::Shuffle::none);
inline constexpr u8 kShuffleBytes = static_cast<u8>(ChunkLayout::Shuffle::bytes);
inline constexpr u8 kShuffleBits = static_cast<u8>(ChunkLayout::Shuffle::bits);

// A block of a chunk, and what is behind in it.
template <class Index>
struct Block {
  u64 address;
  Index elements;
  Index at;  // bytes into it
};

template <class Index>
DAMACY_ELEMENT Block<Index> block_of(const Record& record, Index offset) {
  Index block;
  if constexpr (sizeof(Index) == 4)
    block = divide(offset, record.by_block);
  else
    block = offset / record.block_bytes;
  const Index begin = block * record.block_bytes;
  const Index rest = static_cast<Index>(record.chunk_bytes) - begin;
  const Index bytes = rest < record.block_bytes ? rest : record.block_bytes;
  return {record.chunk + begin, static_cast<Index>(bytes / record.typesize), static_cast<Index>(offset - begin)};
}

// Byte `plane` of element `i` of a block.
template <class Index>
DAMACY_ELEMENT u32 byte_of(const Record& record, const Block<Index>& block, Index i, Index plane) {
  const u64 m = block.elements;
  if (record.shuffle == kShuffleBytes) return load<u8>(block.address + plane * m + i);
  u32 byte = 0;
  for (u32 b = 0; b < 8; ++b)
    byte |= (static_cast<u32>(load<u8>(block.address + (plane * u64{8} + b) * (m / 8) + i / 8)) >> (i % 8) & 1u) << b;
  return byte;
}

// The byte that would lie `offset` into the chunk.
template <class Index>
DAMACY_ELEMENT u32 byte_at(const Record& record, Index offset) {
  if (record.shuffle == kShufflePlain) return load<u8>(record.chunk + offset);
  const Block<Index> block = block_of(record, offset);
  const bool stays =
      block.at >= block.elements * record.typesize || (record.shuffle == kShuffleBits && block.elements % 8 != 0);
  if (stays) return load<u8>(block.address + block.at);
  return byte_of(record, block, static_cast<Index>(block.at / record.typesize),
                 static_cast<Index>(block.at % record.typesize));
}

// Up to eight bytes, the first the lowest.
template <class Index>
DAMACY_ELEMENT u64 bytes_at(const Record& record, Index offset, u32 count) {
  u64 bytes = 0;
  for (u32 k = 0; k < count; ++k) bytes |= static_cast<u64>(byte_at(record, static_cast<Index>(offset + k))) << (8 * k);
  return bytes;
}

}  // namespace damacy::copy_cuda
