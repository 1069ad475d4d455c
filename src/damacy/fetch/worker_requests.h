// The requests that the worker engine gives its readers: runs of whole chunks, the needed parts of one big chunk, and
// chunks that do not exist. A reader decodes and places what it read before it takes the next.
#pragma once

#include <memory>
#include <vector>

#include "damacy/cache/chunk_cache.h"
#include "damacy/device/arena.h"
#include "damacy/fetch/chunk_share.h"
#include "damacy/store/engine.h"

namespace damacy {

// Memory of the readers; outlives all requests.
struct WorkerMemory {
  Arena& staging;                        // packed bytes
  Arena& scratch;                        // decoded bytes
  std::vector<DecodeContext>& contexts;  // by thread
  ChunkShare& share;
  ChunkCache* cache;  // of decoded chunks; null: none is kept
};

std::vector<std::unique_ptr<Request>> make_worker_requests(const std::shared_ptr<ChunkTasks>& tasks,
                                                           const WorkerMemory& memory);

}  // namespace damacy
