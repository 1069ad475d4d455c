#include "damacy/fetch/cached_chunks.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

namespace damacy {
namespace {

constexpr std::size_t kPrefetched = 32;  // chunks

// Two independent hashes: no two arrays share 128 bits.
class WideHash {
 public:
  void add(std::uint64_t word) noexcept {
    low_ = mixed(low_ * 3 + word + 0x9e3779b97f4a7c15u);
    high_ = mixed(high_ * 5 ^ (word + 0xc2b2ae3d27d4eb4fu));
  }
  void add(std::string_view bytes) noexcept {
    add(bytes.size());
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      for (const char c : bytes.substr(at, sizeof word)) word = word << 8 | static_cast<unsigned char>(c);
      add(word);
    }
  }
  std::array<std::uint64_t, 2> value() const noexcept { return {low_, high_}; }

 private:
  std::uint64_t low_ = 1, high_ = 2;
};

std::array<std::uint64_t, 4> words_of(const Stamp& stamp) noexcept {
  return {stamp.device, stamp.inode, stamp.size, static_cast<std::uint64_t>(stamp.modified_ns)};
}

// The document's version is part of it: other metadata may decode the same bytes to other elements.
// All processes of a machine get the same.
std::array<std::uint64_t, 2> identity_of(const Array& array, CachedChunks::Form form) {
  WideHash hash;
  hash.add(static_cast<std::uint64_t>(form));
  for (const std::string_view part :
       {std::string_view(array.uri()), std::string_view(array.path()), std::string_view(array.document_key())})
    hash.add(part);
  hash.add(array.store()->name());
  hash.add(array.store()->identity());  // one uri may be mounted from other servers in another process
  for (const std::uint64_t word : words_of(array.document_stamp())) hash.add(word);
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
  const PlannedShard& shard = tasks_.plan().shards[tasks_.shard_of(chunk)];
  return {arrays_[shard.array], words_of(tasks_.object_with(chunk)->stamp()), tasks_.plan().chunks[chunk].number};
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

// A change of a remote object that has no version would not be noticed if the size stays.
bool CachedChunks::would_notice_change(std::size_t chunk) const {
  const Store& store = *tasks_.array_of(tasks_.shard_of(chunk)).store();
  return !store.is_remote() || store.is_immutable() || !tasks_.object_with(chunk)->version().empty();
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
