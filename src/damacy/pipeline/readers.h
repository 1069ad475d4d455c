// The threads that read, with what each keeps between chunks. Shared by both engines. Knows requests; not batches.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "damacy/io/engine.h"
#include "damacy/pipeline/chunk_tasks.h"
#include "damacy/pipeline/config.h"

namespace damacy {

class Readers {
 public:
  explicit Readers(const Config& config);

  void submit(std::unique_ptr<Request> request) { engine_->submit(std::move(request)); }
  // Runs `task` on a reader, before reads not yet begun; drops it when stopped first. It must not throw.
  void run_soon(std::function<void()> task);
  // Opens all shards of a plan, side by side: on a cold disk their indices are what the first batch waits for.
  void open_shards(const std::shared_ptr<ChunkTasks>& tasks);
  // Ends what runs, drops what waits (its tasks fail), joins. Idempotent.
  void stop() { engine_.reset(); }

  // Chunks that are read at a time, where nothing else is done with them.
  std::size_t at_once() const noexcept { return at_once_; }
  std::vector<DecodeContext>& contexts() noexcept { return contexts_; }

 private:
  std::vector<DecodeContext> contexts_;  // by thread
  std::size_t at_once_;
  std::unique_ptr<Engine> engine_;  // last: its threads use the contexts
};

}  // namespace damacy
