#include "damacy/batch/cached_chunks.h"

#include <algorithm>
#include <array>
#include <span>

#include "damacy/cache/wide_hash.h"
#include "damacy/store/noticed_change.h"

namespace damacy {
namespace {

constexpr std::size_t kPrefetched = 32;  // chunks

// What tiers keep of one chunk differs by form.
std::array<std::uint64_t, 2> identity_of(const Array& array, CachedChunks::Form form) {
  WideHash hash;
  hash.add(static_cast<std::uint64_t>(form));
  for (const std::uint64_t word : array.id()) hash.add(word);
  return hash.value();
}

}  // namespace

CachedChunks::CachedChunks(const ChunkTasks& tasks, ChunkTier* cache, Form form)
    : tasks_(tasks), cache_(cache), form_(form) {
  if (cache == nullptr) return;
  for (const auto& array : tasks.plan().arrays) arrays_.push_back(identity_of(*array, form));
  may_be_kept_.resize(tasks.plan().chunks.size());
}

ChunkKey CachedChunks::key_of(std::size_t chunk) const {
  ChunkKey key = tasks_.key_of(chunk);
  key.array = arrays_[tasks_.plan().shards[tasks_.shard_of(chunk)].array];
  return key;
}

// That chunk, and those behind it which will be looked up, too.
void CachedChunks::prefetch_from(std::size_t chunk) {
  std::array<ChunkKey, kPrefetched> keys;
  prefetched_ = std::min(chunk + keys.size(), tasks_.plan().chunks.size());
  if (prefetched_ == chunk + 1) return;
  std::size_t count = 0;
  for (; chunk < prefetched_; ++chunk)
    if (const ChunkPlace& where = tasks_.where(chunk); !where.failed && !where.missing) keys[count++] = key_of(chunk);
  cache_->prefetch(std::span(keys).first(count));
}

bool CachedChunks::would_notice_change(std::size_t chunk) const {
  return has_version(*tasks_.array_of(tasks_.shard_of(chunk)).store(), *tasks_.object_with(chunk));
}

std::optional<ChunkTier::Hold> CachedChunks::find(std::uint32_t chunk) {
  if (cache_ == nullptr || !would_notice_change(chunk)) return {};
  if (chunk >= prefetched_) prefetch_from(chunk);
  ChunkTier::Found found = cache_->find(key_of(chunk), bytes_of(chunk));
  may_be_kept_[chunk] = found.may_be_kept;
  return std::move(found.hold);
}

ChunkTier::Filling CachedChunks::reserve(std::size_t chunk, std::uint64_t bytes, std::uint64_t note_bytes) {
  if (cache_ == nullptr || !would_notice_change(chunk)) return {};
  return cache_->reserve(key_of(chunk), bytes, note_bytes);
}

}  // namespace damacy
