// Takes sealed waves through the device: one thread enqueues them, one waits for what was enqueued and tells their
// batches. Knows streams and the order of work on them; not how waves are formed.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "damacy/core/channel.h"
#include "damacy/pipeline/stream_engine.h"
#include "damacy/pipeline/wave.h"

namespace damacy {

class WaveRunner final : public RowWriter {
 public:
  struct Memory {
    Arena& device;   // decoder scratch, images, status words
    Arena& pinned;   // images, status words
    Arena& decoded;  // host memory for chunks that a device gave up
  };
  WaveRunner(std::shared_ptr<Device> device, StreamDecoder& decoder, Copier& copier, const Memory& memory,
             StatsBoard& board);
  ~WaveRunner() override { finish(); }

  void run(std::shared_ptr<Wave> wave);
  // What was given is finished; the threads end. Idempotent.
  void finish();

  std::uint64_t native_handle() const noexcept { return main_->native_handle(); }

  // One row of a batch that no wave writes any more; on any thread. Complete on return.
  void fill_row(BatchJob& job, std::size_t row) override;
  void move_row(BatchJob& job, std::size_t from, std::size_t to) override;

 private:
  void enqueue_all();
  void retire_all();
  void enqueue(Wave& wave);
  void retire(Wave& wave);
  void decode_on_host(Wave& wave, StagedChunk& chunk);
  // Runs placements by themselves, a few at a time, and waits for them.
  void place_now(std::size_t count, const std::function<void(PlacementList&, std::size_t)>& add);
  static void fail(Wave& wave, const Error& error) noexcept;
  static void close(Wave& wave) noexcept;

  std::shared_ptr<Device> device_;
  StreamDecoder& decoder_;
  Copier& copier_;
  Memory memory_;
  StatsBoard& board_;
  std::unique_ptr<Stream> up_;    // host to device
  std::unique_ptr<Stream> main_;  // decode and place
  Channel<std::shared_ptr<Wave>> sealed_{64};
  Channel<std::shared_ptr<Wave>> in_flight_{64};

  std::mutex repair_mutex_;  // guards what follows
  std::unique_ptr<Stream> repair_;
  HostBuffer repair_pinned_;
  HostBuffer repair_device_;
  DecodeContext context_;  // of the retiring thread

  std::thread enqueuer_;
  std::thread retirer_;
};

}  // namespace damacy
