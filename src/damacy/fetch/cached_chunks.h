// The stored chunks of a planned batch in a cache of decoded or of encoded chunks: their keys, and which of them may be
// kept. Knows arrays and stamps, of which it makes keys; not what a chunk's bytes are for. find() is called before the
// requests begin, the rest by any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "damacy/cache/chunk_cache.h"
#include "damacy/fetch/chunk_tasks.h"

namespace damacy {

class CachedChunks {
 public:
  enum class Form { decoded, encoded };
  // Outlived by both. Without a cache nothing is found or kept.
  CachedChunks(const ChunkTasks& tasks, ChunkCache* cache, Form form = Form::decoded);

  // The chunk's look-up: once for each chunk that is stored.
  std::optional<ChunkCache::Hold> find(std::uint32_t chunk);
  // Whether a chunk that was not found will probably be kept, if there is all of it.
  bool may_be_kept(std::size_t chunk) const noexcept { return cache_ != nullptr && may_be_kept_[chunk]; }
  ChunkCache::Filling reserve(std::size_t chunk) { return reserve(chunk, bytes_of(chunk), 0); }
  ChunkCache::Filling reserve(std::size_t chunk, std::uint64_t bytes, std::uint64_t note_bytes);

 private:
  ChunkKey key_of(std::size_t chunk) const;
  std::uint64_t bytes_of(std::size_t chunk) const {
    return form_ == Form::encoded ? tasks_.where(chunk).bytes
                                  : static_cast<std::uint64_t>(tasks_.metadata_of(chunk).chunk_bytes());
  }

  const ChunkTasks& tasks_;
  ChunkCache* const cache_;
  const Form form_;
  std::vector<std::array<std::uint64_t, 2>> arrays_;  // by array of the plan
  std::vector<bool> may_be_kept_;                     // by chunk
};

}  // namespace damacy
