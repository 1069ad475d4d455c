#include "damacy/wave/crop_size.h"

#include <algorithm>

#include "damacy/wave/stage_chunk.h"
#include "damacy/wave/wave.h"

namespace damacy {

void split_copy(const BlockCopy& copy, std::uint64_t most, std::vector<BlockCopy>& pieces) {
  CopyAxis none{1, 0, 0};
  CopyAxis* longest = &none;
  BlockCopy low = copy;
  for (CopyAxis& axis : low.used())
    if (axis.extent > longest->extent) longest = &axis;
  if (bytes_of_crop(copy) <= most || longest->extent == 1) return pieces.push_back(copy);
  const std::int64_t middle = longest->extent / 2;
  BlockCopy high = copy;
  CopyAxis& rest = high.axes[static_cast<std::size_t>(longest - low.axes.data())];
  high.src_offset += middle * rest.src_stride;
  high.dst_offset += middle * rest.dst_stride;
  rest.extent -= middle;
  longest->extent = middle;
  split_copy(low, most, pieces);
  split_copy(high, most, pieces);
}

ByteRange whole_of(const WantedChunks& chunks, std::uint32_t chunk) {
  const std::vector<ByteRange> needed = chunks.needed_bytes(chunk);
  return {needed.front().begin, needed.back().end};
}

CropSize size_of_crops(const WantedChunks& chunks, std::uint32_t chunk) {
  const std::uint64_t whole = Wave::padded(whole_of(chunks, chunk).size());
  if (static_cast<std::uint64_t>(chunks.count_uses(chunk)) * Wave::kAlignment > whole) return {whole, true};
  std::uint64_t apart = 0;
  chunks.for_uses(chunk, WantedChunks::From::chunk,
                  [&](const Use& use) { apart += Wave::padded(bytes_of_crop(use.copy)); });
  return {std::min(apart, whole), whole < apart};
}

}  // namespace damacy
