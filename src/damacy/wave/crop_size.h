// How much staging memory the crops of a chunk that the host decodes take, and how one that takes too much is divided.
// Pure: knows copies and padding; not waves.
#pragma once

#include <cstdint>
#include <vector>

#include "damacy/copy/block.h"
#include "damacy/fetch/wanted_chunks.h"

namespace damacy {

// Halves along the longest axis until every piece has at most `most` bytes.
void split_copy(const BlockCopy& copy, std::uint64_t most, std::vector<BlockCopy>& pieces);

// The bytes from the first to the last that is needed of a chunk.
ByteRange whole_of(const WantedChunks& chunks, std::uint32_t chunk);

// How crops of a chunk take the fewest padded bytes: each by itself, or as one range of the chunk.
struct CropSize {
  std::uint64_t bytes;
  bool is_whole;
};
CropSize size_of_crops(const WantedChunks& chunks, std::uint32_t chunk);

}  // namespace damacy
