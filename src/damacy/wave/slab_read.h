// Reads a run of chunks into the staging memory of a wave and then describes the chunks' frames. Knows reads and their
// failures; not how waves are formed.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "damacy/core/error.h"
#include "damacy/fetch/chunk_reads.h"
#include "damacy/wave/stage_chunk.h"
#include "damacy/wave/wave.h"

namespace damacy {

class SlabRead final : public Request {
 public:
  SlabRead(std::shared_ptr<Wave> wave, std::shared_ptr<ChunkTasks> tasks, ChunkRun run, StagedRange staged,
           std::vector<StagedChunk*> chunks)
      : wave_(std::move(wave)),
        tasks_(std::move(tasks)),
        run_(std::move(run)),
        staged_(std::move(staged)),
        read_(*tasks_),
        chunks_(std::move(chunks)) {}

  Part prepare(std::size_t, std::stop_token) override {
    watch_ = {};
    return {tasks_->object_of(tasks_->shard_of(run_.chunks.front())), run_.offset, staged_.memory()};
  }

  bool only_reads() const noexcept override { return true; }
  void complete(std::size_t, const Part& part, const Error* failure) override {
    if (failure == nullptr) {
      std::uint64_t wanted = 0;
      for (const StagedChunk* chunk : chunks_) wanted += chunk->staged_bytes;
      count_read(tasks_->board(), watch_.elapsed(), run_.bytes, wanted);
      read_.end();
    }
    for (; next_ < chunks_.size(); ++next_) {
      StagedChunk* const chunk = chunks_[next_];
      const auto failed = failure_of([&] {
        if (failure != nullptr) read_again(part, *chunk, *failure);
        stage_chunk(*wave_, *chunk, packed(*chunk));
      });
      if (!failed) continue;
      chunk->failed = true;
      tasks_->fail_chunk(chunk->chunk, *failed);
    }
    read_.end();
  }
  bool can_be_abandoned() const noexcept override { return true; }
  // The wave continues without these chunks; their staging memory is kept until the read returns.
  void abandon(const Error& why) noexcept override {
    kept_ = staged_.keep();
    staged_.strand(why);
    read_.end();
    for (; next_ < chunks_.size(); ++next_) {
      chunks_[next_]->failed = true;
      tasks_->fail_chunk(chunks_[next_]->chunk, why);
    }
    const StagedRange ends = std::move(staged_);
  }

 private:
  std::span<std::byte> packed(const StagedChunk& chunk) const {
    return staged_.memory().subspan(chunk.staged_at - staged_.begin(), chunk.staged_bytes);
  }

  // A merged read fails as a whole. Reads its chunks one by one, so that only those that cannot be read fail.
  void read_again(const Part& part, const StagedChunk& chunk, const Error& failure) {
    if (chunks_.size() == 1 || !part.object || failure.status() != Status::io) throw failure;
    part.object->read_exact(tasks_->where(chunk.chunk).offset, packed(chunk));
  }

  std::shared_ptr<void> kept_;  // of an abandoned read: the memory
  std::shared_ptr<Wave> wave_;
  std::shared_ptr<ChunkTasks> tasks_;
  ChunkRun run_;
  StagedRange staged_;
  PendingRead read_;
  std::vector<StagedChunk*> chunks_;
  std::size_t next_ = 0;  // of them
  Stopwatch watch_;
};

}  // namespace damacy
