#include "damacy/fetch/cached_chunks.h"

#include <algorithm>
#include <array>
#include <span>

namespace damacy {
namespace {

constexpr std::size_t kPrefetched = 32;  // chunks

}  // namespace

CachedChunks::CachedChunks(const FetchedChunks& chunks, ChunkTier* cache, Form form)
    : chunks_(chunks), cache_(cache), form_(form) {
  if (cache != nullptr) may_be_kept_.resize(chunks.wants().chunks.size());
}

// What tiers keep of one chunk differs by form. The ids of two chunks are hashes, and differ in more bits than forms.
ChunkKey CachedChunks::key_of(std::size_t chunk) const noexcept {
  ChunkKey key = want(chunk).id;
  key.words[0] ^= static_cast<std::uint64_t>(form_);
  return key;
}

// That chunk, and those behind it which will be looked up, too.
void CachedChunks::prefetch_from(std::size_t chunk) {
  std::array<ChunkKey, kPrefetched> keys;
  prefetched_ = std::min(chunk + keys.size(), chunks_.wants().chunks.size());
  if (prefetched_ == chunk + 1) return;
  std::size_t count = 0;
  for (; chunk < prefetched_; ++chunk)
    if (const ChunkPlace& where = want(chunk).place; !where.failed && !where.missing) keys[count++] = key_of(chunk);
  cache_->prefetch(std::span(keys).first(count));
}

std::optional<ChunkTier::Hold> CachedChunks::find(std::uint32_t chunk) {
  if (!is_asked_for(chunk)) return {};
  if (chunk >= prefetched_) prefetch_from(chunk);
  ChunkTier::Found found = cache_->find(key_of(chunk), bytes_of(chunk));
  may_be_kept_[chunk] = found.may_be_kept;
  return std::move(found.hold);
}

ChunkTier::Filling CachedChunks::reserve(std::size_t chunk, std::uint64_t bytes, std::uint64_t note_bytes) {
  if (!is_asked_for(chunk)) return {};
  return cache_->reserve(key_of(chunk), bytes, note_bytes);
}

}  // namespace damacy
