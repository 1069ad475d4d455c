// Reads what is needed of large blosc chunks for a device: first the tables of their blocks, then those blocks into the
// staging memory of a wave. Knows chunks of a wave; not how waves are formed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "damacy/fetch/host_sink.h"
#include "damacy/fetch/readers.h"
#include "damacy/wave/needed_blocks.h"
#include "damacy/wave/wave.h"

namespace damacy {

struct TableOfBlocks {
  std::shared_ptr<const NeededBlocks> blocks;  // null: a device does not decode it, or its head cannot be read
  bool timed_out = false;                      // and the chunk failed
};
// Reads the heads of `some` of the chunks on the readers and waits for them. One answer each. Throws Error(shutdown)
// when stopped before.
[[nodiscard]] std::vector<TableOfBlocks> read_tables(const std::shared_ptr<WantedChunks>& chunks,
                                                     std::span<const std::uint32_t> some, Readers& readers,
                                                     const std::stop_token& stop);

// The needed blocks of one chunk. What cannot be described for a device is read whole and decoded on this reader.
class BlocksRead final : public Request {
 public:
  // `staged` has blocks and is in the wave; `range` is its staging memory.
  BlocksRead(std::shared_ptr<Wave> wave, const std::shared_ptr<WantedChunks>& chunks, StagedChunk& staged,
             StagedRange range, DecodeMemory memory);
  Part prepare(std::size_t thread, std::stop_token stop) override;
  void complete(std::size_t thread, const Part& part, const Error* failure) override;
  bool only_reads() const noexcept override { return true; }
  bool can_be_abandoned() const noexcept override { return true; }
  void abandon(const Error& why) noexcept override;

 private:
  void read(const Part& part, std::uint64_t position, std::span<std::byte> to);
  void decode_whole(std::size_t thread, const Part& part);
  void fail(const Error& why) noexcept;

  Task<Job> task_;  // ends after all below
  std::shared_ptr<Wave> wave_;
  std::shared_ptr<WantedChunks> chunks_;
  StagedChunk* staged_;
  std::uint32_t chunk_;
  std::shared_ptr<const NeededBlocks> blocks_;
  std::optional<StagedRange> range_;  // until the chunk is staged
  std::span<std::byte> bytes_;        // of range_
  std::shared_ptr<const Arena::Piece> piece_, whole_;
  DecodeMemory memory_;
  PendingRead read_;
  std::stop_token stop_;
  Stopwatch watch_;
};

}  // namespace damacy
