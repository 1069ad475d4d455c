#include "damacy/fetch/wanted_chunks.h"

#include "damacy/store/storage_watch.h"

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

void FetchedChunks::while_wanted(const std::function<void()>& calls) const {
  const std::atomic<bool>* const flag = cancelled();
  if (flag == nullptr) return calls();
  try {
    const CancelScope scope(*flag);
    calls();
  } catch (const Abandoned&) {
    if (const StorageWatch* const watch = StorageWatch::current(); watch != nullptr && watch->abandoned()) throw;
    check_wanted();
    throw;
  }
}

}  // namespace damacy
