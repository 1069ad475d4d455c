// Deduplicates decodes across batches: if a chunk is already queued for decoding, another batch that needs it shares
// that decode. Knows announced chunks and the batches that joined; thread-safe. Reads and decodes nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "damacy/cache/chunk_key.h"
#include "damacy/core/mutex.h"
#include "damacy/fetch/wanted_chunks.h"

namespace damacy {

class ChunkShare {
 public:
  // The thread that announces a chunk must claim it, once, before it decodes or fails it.
  void announce(const ChunkKey& key) {
    const Lock lock(mutex_);
    waiting_.try_emplace(key);
  }
  // False if the chunk is not queued for decoding.
  bool join(const std::shared_ptr<WantedChunks>& chunks, std::uint32_t chunk) {
    const Lock lock(mutex_);
    const auto found = waiting_.find(chunks->id_of(chunk));
    if (found == waiting_.end()) return false;
    found->second.emplace_back(chunks, chunk);
    return true;
  }
  // The batches that joined. Later ones cannot join.
  std::vector<ChunkConsumer> claim(const ChunkKey& key) {
    const Lock lock(mutex_);
    const auto found = waiting_.find(key);
    if (found == waiting_.end()) return {};
    std::vector<ChunkConsumer> joined = std::move(found->second);
    waiting_.erase(found);
    return joined;
  }

 private:
  Mutex mutex_;
  std::unordered_map<ChunkKey, std::vector<ChunkConsumer>, ChunkKeyHash> waiting_ DAMACY_GUARDED_BY(mutex_);
};

}  // namespace damacy
