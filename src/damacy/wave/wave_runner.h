// Takes waves through the device with four threads: one enqueues uploads and decoding, one frees uploaded staging
// memory, one claims each batch's slot and enqueues placing, and one waits for the enqueued work and settles batches.
// So reading, copying and decoding run ahead of the slots. Knows streams and the order of work on them; not how waves
// are formed.
#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "damacy/batch/memory_plan.h"
#include "damacy/codec/stream_decoder.h"
#include "damacy/copy/placement.h"
#include "damacy/core/channel.h"
#include "damacy/core/thread.h"
#include "damacy/device/device.h"
#include "damacy/wave/direct_writes.h"
#include "damacy/wave/wave.h"

namespace damacy {

class WaveRunner final : public WaveWatcher {
 public:
  static constexpr std::size_t kDecodesAtOnce = WaveSizes::kDecodesAtOnce;
  struct Memory {
    Arena& device;            // decoder scratch, images, status words
    Arena& pinned;            // images, status words
    Arena &packed, &decoded;  // host memory for chunks that a device gave up
  };
  WaveRunner(std::shared_ptr<Device> device, StreamDecoder& decoder, Copier& copier, const Memory& memory,
             StatsBoard& board);
  ~WaveRunner() override { finish(); }

  void piece_written(const std::shared_ptr<Wave>& wave, StagedPiece& piece) noexcept override;
  void wave_written(const std::shared_ptr<Wave>& wave) noexcept override;
  void copy_now(std::span<std::byte> to, std::span<const std::byte> from) override { direct_.copy(to, from); }
  // Finishes all waves, then ends the threads. Idempotent.
  void finish();
  std::uint64_t retired() const noexcept { return retired_; }  // waves so far

  std::uint64_t native_handle() const noexcept { return main_->native_handle(); }
  RowWriter& rows() noexcept { return direct_; }

 private:
  void upload_all();
  void free_all();
  void place_all();
  void retire_all();
  // Runs a step, unless an earlier one failed.
  template <class Step>
  static void attempt(std::optional<Error>& failure, Step step) noexcept;
  void upload(Wave& wave, StagedPiece& piece);
  void decode_in_order(WaveStep& written);
  void decode(Wave& wave);
  void copy_encoded(Stream& stream, Wave::EncodedCopies& copies);
  void bring_by_copies(Wave& wave);
  void bring_by_kernels(Wave& wave);
  static void publish(Wave& wave, const WaveShare& share) noexcept;
  void place(Wave& wave, WaveShare& share);
  void retire(Wave& wave, WaveShare& share);
  static void fail_overwritten(Wave& wave, const WaveShare& share) noexcept;
  void redo(Wave& wave, StagedChunk& chunk) noexcept;
  void wait_enqueued() noexcept;
  static void fail(Wave& wave, const WaveShare& share, const Error& why) noexcept;
  void close(Wave& wave, WaveShare& share) noexcept;

  std::shared_ptr<Device> device_;
  StreamDecoder& decoder_;
  Copier& copier_;
  Memory memory_;
  StatsBoard& board_;
  std::atomic<std::uint64_t> retired_{0};
  Channel<WaveStep> written_;    // pieces, and waves of which all pieces are written
  Channel<WaveStep> uploading_;  // pieces
  Channel<WaveStep> decoding_;   // waves
  Channel<WaveStep> placing_;    // shares

  // The uploading thread's.
  std::unique_ptr<Stream> up_;                                  // host to device
  std::unique_ptr<Stream> up_beside_;                           // the same, for half of many copies
  std::array<std::unique_ptr<Stream>, kDecodesAtOnce> decode_;  // in turns
  std::size_t turn_ = 0;
  WaveStep* early_ = nullptr;     // waves that were written before the wave before them, by number
  std::uint64_t next_ = 0;        // the number of the wave to decode next
  std::unique_ptr<Stream> main_;  // the placing thread's

  DirectWrites direct_;

  Thread uploader_;
  Thread freer_;
  Thread placer_;
  Thread retirer_;
};

}  // namespace damacy
