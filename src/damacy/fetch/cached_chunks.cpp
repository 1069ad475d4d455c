#include "damacy/fetch/cached_chunks.h"

#include <string_view>

namespace damacy {
namespace {

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
std::array<std::uint64_t, 2> identity_of(const Array& array) {
  WideHash hash;
  for (const std::string_view part :
       {std::string_view(array.uri()), std::string_view(array.path()), std::string_view(array.document_key())})
    hash.add(part);
  hash.add(array.store()->name());
  for (const std::uint64_t word : words_of(array.document_stamp())) hash.add(word);
  return hash.value();
}

}  // namespace

CachedChunks::CachedChunks(const ChunkTasks& tasks, ChunkCache* cache, Form form)
    : tasks_(tasks), cache_(cache), form_(form) {
  if (cache == nullptr) return;
  for (const auto& array : tasks.plan().arrays) arrays_.push_back(identity_of(*array));
  may_be_kept_.resize(tasks.plan().chunks.size());
}

ChunkKey CachedChunks::key_of(std::size_t chunk) const {
  const PlannedShard& shard = tasks_.plan().shards[tasks_.shard_of(chunk)];
  return {arrays_[shard.array], words_of(tasks_.object_with(chunk)->stamp()), tasks_.plan().chunks[chunk].number};
}

std::optional<ChunkCache::Hold> CachedChunks::find(std::uint32_t chunk) {
  if (cache_ == nullptr) return {};
  ChunkCache::Found found = cache_->find(key_of(chunk), bytes_of(chunk));
  may_be_kept_[chunk] = found.may_be_kept;
  return std::move(found.hold);
}

ChunkCache::Filling CachedChunks::reserve(std::size_t chunk, std::uint64_t bytes, std::uint64_t note_bytes) {
  if (cache_ == nullptr) return {};
  return cache_->reserve(key_of(chunk), bytes, note_bytes);
}

}  // namespace damacy
