#include "damacy/fetch/wanted_chunks.h"

#include <algorithm>

#include "damacy/store/storage_watch.h"

namespace damacy {
namespace {

// Below this size one read of everything is faster than two reads of parts.
constexpr std::uint64_t kPartialFrom = 512 << 10;

}  // namespace

// Raw chunks without a checksum, and chunks of a codec that can decode parts, when at most three quarters are needed.
void choose_parts(Wants& wants, const std::function<std::vector<ByteRange>(std::size_t)>& needed, bool most_as_stored) {
  for (std::size_t c = 0; c < wants.chunks.size(); ++c) {
    const std::uint64_t stored = wants.where(c).bytes;
    const ArrayMetadata& metadata = wants.metadata_of(c);
    if (stored < kPartialFrom || !(metadata.codecs.is_raw() || metadata.codecs.can_read_partially())) continue;
    std::uint64_t bytes = 0;
    for (const ByteRange& range : needed(c)) bytes += range.size();
    const std::uint64_t most = metadata.chunk_bytes() / 4 * 3;
    wants.chunks[c].in_part = bytes <= (most_as_stored ? std::min(most, stored) : most);
  }
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
