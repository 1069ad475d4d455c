// Takes the chunks of a run that was read into the staging memory of a wave, and describes their frames for a device.
// Knows chunks of a wave; not how waves are formed.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "damacy/fetch/chunk_reads.h"
#include "damacy/wave/shared_decode.h"
#include "damacy/wave/stage_chunk.h"
#include "damacy/wave/wave.h"

namespace damacy {

class EncodedSink final : public ChunkSink {
 public:
  // `staged`: of one run, with its chunks in the order of their bytes.
  EncodedSink(std::shared_ptr<Wave> wave, std::shared_ptr<WantedChunks> chunks, StagedRange range,
              std::vector<StagedChunk*> staged, EncodedCaches caches)
      : wave_(std::move(wave)),
        chunks_(std::move(chunks)),
        caches_(std::move(caches)),
        staged_(std::move(staged)),
        range_(std::move(range)) {}
  ~EncodedSink() override { end_decodes(staged_); }
  // The wave continues without the chunks that were not taken.
  void end() noexcept override { const auto ends = std::exchange(range_, std::nullopt); }

  WantedChunks& chunks() noexcept override { return *chunks_; }
  ReadBuffer buffer(std::uint64_t, std::stop_token) override { return {range_->memory(), range_->piece()}; }
  bool only_reads() const noexcept override { return true; }
  void fail_read(std::size_t chunk, const Error& why) noexcept override { fail_staged(staged(chunk), why); }
  bool take(std::size_t, std::size_t chunk, std::span<const std::byte> packed, std::span<const ByteRange>,
            std::stop_token) noexcept override {
    stage_chunk(*wave_, staged(chunk), packed, caches_);
    return true;
  }

 private:
  // Called once a chunk, in the order of `staged_`.
  StagedChunk& staged(std::size_t chunk) noexcept {
    while (staged_[next_]->chunk != chunk) ++next_;
    return *staged_[next_];
  }

  std::shared_ptr<Wave> wave_;
  std::shared_ptr<WantedChunks> chunks_;
  EncodedCaches caches_;  // of chunks_
  std::vector<StagedChunk*> staged_;
  std::size_t next_ = 0;
  std::optional<StagedRange> range_;  // until the run was taken
};

}  // namespace damacy
