// Adds chunks that are kept to a wave, on a reader: their frames and placements. Nothing is read. Knows chunks of a
// wave; not the cache they are from.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "damacy/store/engine.h"
#include "damacy/wave/shared_decode.h"
#include "damacy/wave/stage_chunk.h"
#include "damacy/wave/wave.h"

namespace damacy {

class KeptChunksRequest final : public Request {
 public:
  KeptChunksRequest(std::shared_ptr<Wave> wave, const std::shared_ptr<WantedChunks>& chunks, EncodedCaches caches)
      : task_(chunks->new_task()), wave_(std::move(wave)), caches_(std::move(caches)), open_(wave_->open()) {}
  ~KeptChunksRequest() override { end_decodes(chunks_); }
  // A chunk of the wave and the job, which has `kept`. At least one.
  void add(StagedChunk& chunk) { chunks_.push_back(&chunk); }
  bool is_full() const noexcept { return chunks_.size() >= kChunksAtOnce; }

  Part prepare(std::size_t, std::stop_token) override { return {}; }
  void complete(std::size_t, const Part&, const Error* failure) noexcept override {
    if (failure == nullptr)
      stage_kept_chunks(*wave_, chunks_, caches_);
    else
      fail(*failure);
    chunks_.clear();
    const auto ends = std::exchange(open_, std::nullopt);
  }

 private:
  void fail(const Error& why) noexcept {
    for (StagedChunk* const chunk : chunks_) fail_staged(*chunk, why);
  }

  static constexpr std::size_t kChunksAtOnce = 256;

  const Task<Job> task_;  // ends after all below
  const std::shared_ptr<Wave> wave_;
  const EncodedCaches caches_;
  std::optional<StagedRange> open_;
  std::vector<StagedChunk*> chunks_;
};

}  // namespace damacy
