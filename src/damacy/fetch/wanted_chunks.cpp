#include "damacy/fetch/wanted_chunks.h"

namespace damacy {
namespace {

// Below this size one read of everything is faster than two reads of parts.
constexpr std::uint64_t kPartialFrom = 512 << 10;

}  // namespace

// Raw chunks without a checksum, and chunks of a codec that can decode parts, when at most three quarters are needed.
bool LocatedChunks::worth_reading_partially(std::size_t chunk) const {
  const ArrayMetadata& metadata = metadata_of(chunk);
  if (where(chunk).bytes < kPartialFrom || !(metadata.codecs.is_raw() || metadata.codecs.can_read_partially()))
    return false;
  std::uint64_t needed = 0;
  for (const ByteRange& range : needed_bytes(chunk)) needed += range.size();
  return needed <= metadata.chunk_bytes() / 4 * 3;
}

}  // namespace damacy
