// The wanted chunks of a job in a cache of decoded or of encoded chunks: which of them are there, and which may be
// kept. Knows their ids; not what a chunk's bytes are for. find() is called before the requests begin, the rest by any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "damacy/cache/chunk_tier.h"
#include "damacy/fetch/wanted_chunks.h"

namespace damacy {

class CachedChunks {
 public:
  // What a tier keeps of a chunk: decoded, encoded, or encoded with a note for a decoder: of a GPU, or of a host
  // device. Processes share chunks of the same form.
  enum class Form : std::uint8_t { decoded, encoded, described, described_on_host };
  // Outlived by both; the chunks are located. Without a cache nothing is found or kept.
  CachedChunks(const FetchedChunks& chunks, ChunkTier* cache, Form form = Form::decoded);

  // Whether the cache is asked for the chunk: a later change of it would be noticed.
  bool is_asked_for(std::size_t chunk) const noexcept { return cache_ != nullptr && want(chunk).is_versioned; }
  // The chunk's look-up: once for each chunk that is stored.
  std::optional<ChunkTier::Hold> find(std::uint32_t chunk);
  // Whether a chunk that was not found will probably be kept, if there is all of it.
  bool may_be_kept(std::size_t chunk) const noexcept { return cache_ != nullptr && may_be_kept_[chunk]; }
  ChunkTier::Filling reserve(std::size_t chunk) { return reserve(chunk, bytes_of(chunk), 0); }
  ChunkTier::Filling reserve(std::size_t chunk, std::uint64_t bytes, std::uint64_t note_bytes);

 private:
  const Want& want(std::size_t chunk) const noexcept { return chunks_.wants().chunks[chunk]; }
  ChunkKey key_of(std::size_t chunk) const noexcept;
  void prefetch_from(std::size_t chunk);
  std::uint64_t bytes_of(std::size_t chunk) const {
    return form_ != Form::decoded ? want(chunk).place.bytes
                                  : static_cast<std::uint64_t>(chunks_.metadata_of(chunk).chunk_bytes());
  }

  const FetchedChunks& chunks_;
  ChunkTier* const cache_;
  const Form form_;
  std::vector<bool> may_be_kept_;  // by chunk
  std::size_t prefetched_ = 0;     // chunks below it
};

}  // namespace damacy
