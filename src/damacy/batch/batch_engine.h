// Interface of the engines that read, decode and place planned chunks: on the cores (worker_engine), or in the order of
// a device's streams (stream_engine). The contract: tests/conformance/batch_engine_suite.h.
#pragma once

#include <memory>
#include <stop_token>

#include "damacy/batch/batch_job.h"

namespace damacy {

class ChunkTier;
class ChunkTasks;
class DecodedAhead;

class BatchEngine {
 public:
  virtual ~BatchEngine() = default;
  // Whether produce() takes jobs that have no slot yet; they claim it when their first bytes are to be written.
  virtual bool runs_ahead() const = 0;
  // Submits the reads of located chunks, of all or a portion of a batch; they are placed later, on threads of the
  // readers or of the engine. Called by one thread. May wait for memory. What it throws, the batch fails with.
  virtual void take(const std::shared_ptr<ChunkTasks>& tasks, std::stop_token stop) = 0;
  // The last portion of a batch was taken.
  virtual void end_batch() {}
  // No batch follows at once: starts chunks that were held back to share a wave with the next one.
  virtual void flush() {}
  // The readers have stopped: finishes what they read. Idempotent.
  virtual void finish() noexcept {}
  // Who writes single rows of batches that this engine placed, and the stream that they are ready on (0: the host).
  virtual RowWriter& rows() = 0;
  virtual std::uint64_t ready_stream() const = 0;
  // How many chunks are read, and waves or chunks decoded, at the same time; and what a wave holds, in bytes.
  struct AtOnce {
    std::size_t readers, decoders;
    std::uint64_t wave_encoded = 0, wave_decoded = 0;
    bool larger_waves = false;  // larger buffers would make them hold more encoded bytes
  };
  virtual AtOnce at_once() const = 0;
  // Of decoded chunks; null: none is kept.
  virtual ChunkTier* cache() noexcept { return nullptr; }
  // Of decoded chunks that announced batches want; null: none is kept for them.
  virtual std::shared_ptr<DecodedAhead> decoded_ahead() noexcept { return nullptr; }
  // Of encoded chunks, in the memory of a device and in that of the host.
  virtual ChunkTier* device_cache() noexcept { return nullptr; }
  virtual ChunkTier* host_cache() noexcept { return nullptr; }
  // Bytes taken so far: of staging and cache, and of scratch where batches live.
  virtual std::size_t host_bytes() const = 0;
  virtual std::size_t device_bytes() const = 0;
};

}  // namespace damacy
