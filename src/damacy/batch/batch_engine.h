// Interface of the engines that place batches: on the cores (worker_engine), or in the order of a device's streams
// (stream_engine). The contract: tests/conformance/batch_engine_suite.h.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>

#include "damacy/batch/batch_job.h"

namespace damacy {

class StorageWork;

class BatchEngine {
 public:
  virtual ~BatchEngine() = default;
  // Whether produce() takes jobs that have no slot yet; they claim it when their first bytes are to be written.
  virtual bool runs_ahead() const = 0;
  // Plans a job and submits its reads; the job settles later, on a thread of the engine. May wait for memory. Reports
  // failures to the job.
  virtual void produce(const Task<BatchJob>& job, std::stop_token stop) noexcept = 0;
  // No job follows at once: starts chunks that were held back to share a wave with the next job.
  virtual void flush() = 0;
  // As Readers::ask.
  virtual void ask(std::shared_ptr<StorageWork> work, std::size_t count, std::size_t lanes,
                   std::function<void()> all_told) = 0;
  // Fails storage calls that exceeded their deadline. Any thread, without a lock.
  virtual void abandon_overdue() noexcept = 0;
  // Ends running requests, drops waiting ones (their jobs settle as failed), joins. Idempotent. True if threads stuck
  // in storage were detached with `keep`.
  virtual bool stop(const std::shared_ptr<void>& keep) noexcept = 0;
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
  // Bytes taken so far: of staging, and of scratch where batches live.
  virtual std::size_t host_bytes() const = 0;
  virtual std::size_t device_bytes() const = 0;
};

}  // namespace damacy
