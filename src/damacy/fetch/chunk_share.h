// Deduplicates decodes across batches: if a chunk is already queued for decoding, another batch that needs it shares
// that decode. Knows announced chunks and the batches that joined; thread-safe. Reads and decodes nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "damacy/core/mutex.h"
#include "damacy/fetch/chunk_tasks.h"

namespace damacy {

class ChunkShare {
 public:
  // One version of one chunk.
  struct Key {
    const Array* array;
    Stamp object;
    std::int64_t number;  // in the array: indices repeat where shards lie in one object
    friend bool operator==(const Key&, const Key&) = default;
  };
  static Key key_of(const ChunkTasks& tasks, std::uint32_t chunk) {
    return {&tasks.array_of(tasks.shard_of(chunk)), tasks.object_with(chunk)->stamp(),
            tasks.plan().chunks[chunk].number};
  }

  // The thread that announces a chunk must claim it, once, before it decodes or fails it.
  void announce(const Key& key) {
    const Lock lock(mutex_);
    waiting_.try_emplace(key);
  }
  // False if the chunk is not queued for decoding.
  bool join(const std::shared_ptr<ChunkTasks>& tasks, std::uint32_t chunk) {
    const Lock lock(mutex_);
    const auto found = waiting_.find(key_of(*tasks, chunk));
    if (found == waiting_.end()) return false;
    found->second.emplace_back(tasks, chunk);
    return true;
  }
  // The batches that joined. Later ones cannot join.
  std::vector<ChunkConsumer> claim(const Key& key) {
    const Lock lock(mutex_);
    const auto found = waiting_.find(key);
    if (found == waiting_.end()) return {};
    std::vector<ChunkConsumer> joined = std::move(found->second);
    waiting_.erase(found);
    return joined;
  }

 private:
  struct Hash {
    std::size_t operator()(const Key& key) const noexcept {
      return std::hash<const Array*>{}(key.array) ^ (key.object.inode * 0x9e3779b97f4a7c15u) ^
             (static_cast<std::size_t>(key.number) * 0xc2b2ae3d27d4eb4fu);
    }
  };
  Mutex mutex_;
  std::unordered_map<Key, std::vector<ChunkConsumer>, Hash> waiting_ DAMACY_GUARDED_BY(mutex_);
};

}  // namespace damacy
