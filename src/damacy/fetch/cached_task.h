// A request that places chunks which a tier keeps decoded. Knows sinks and holds; not who looked the chunks up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "damacy/cache/chunk_tier.h"
#include "damacy/fetch/host_sink.h"
#include "damacy/store/engine.h"

namespace damacy {

// Of cached chunks that one request places: many small ones, few large ones.
inline constexpr std::size_t kCachedATask = 64;
inline constexpr std::size_t kCachedBytesATask = 512 << 10;
// Neighbours write the same rows, and so belong in one request.
inline constexpr std::size_t kNeighboursBytesATask = 4 << 20;

struct CachedChunk {
  std::uint32_t chunk;
  ChunkTier::Hold hold;
};

// Chunks that were decoded earlier: only placed.
class CachedTask final : public Request {
 public:
  explicit CachedTask(const std::shared_ptr<HostSink>& sink) : task_(sink->chunks().new_task()), sink_(sink) {}
  void add(CachedChunk cached) {
    bytes_ += cached.hold.bytes().size();
    chunks_.push_back({cached.chunk, cached.hold.bytes()});
    holds_.push_back(std::move(cached.hold));
  }
  bool is_full(bool before_neighbour) const noexcept {
    return chunks_.size() >= kCachedATask || bytes_ >= (before_neighbour ? kNeighboursBytesATask : kCachedBytesATask);
  }
  Part prepare(std::size_t, std::stop_token) override { return {}; }
  void complete(std::size_t, const Part&, const Error* failure) noexcept override {
    if (failure == nullptr) return sink_->place_cached(chunks_);
    for (const HostSink::Decoded& cached : chunks_) sink_->chunks().fail_chunk(cached.chunk, *failure);
  }

 private:
  const Task<Job> task_;  // ends after all below
  const std::shared_ptr<HostSink> sink_;
  std::vector<ChunkTier::Hold> holds_;
  std::vector<HostSink::Decoded> chunks_;
  std::size_t bytes_ = 0;
};

}  // namespace damacy
