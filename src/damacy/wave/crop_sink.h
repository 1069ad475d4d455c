// Decodes chunks on the reader instead of on the device: only what is wanted of them goes into the staging memory of a
// wave. Knows chunks of a wave; not how waves are formed.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "damacy/fetch/host_sink.h"
#include "damacy/wave/wave.h"

namespace damacy {

// What is wanted of a chunk, on its way to the device.
struct CropsOfChunk {
  struct Crop {
    BlockCopy copy;  // a use, or a part of one
    StagedRange staged;
  };
  // One range that has all needed bytes; used where it is smaller than the crops.
  struct Whole {
    ByteRange bytes;  // of the decoded chunk
    StagedRange staged;
  };
  StagedChunk* staged = nullptr;
  std::vector<Crop> crops;
  std::optional<Whole> whole = std::nullopt;  // in place of crops
  bool done = false;
};
using Crops = std::map<std::uint32_t, CropsOfChunk>;  // by number of the chunk

class CropSink final : public ChunkSink {
 public:
  CropSink(std::shared_ptr<Wave> wave, std::shared_ptr<WantedChunks> chunks, Crops crops, DecodeMemory memory)
      : wave_(std::move(wave)), chunks_(std::move(chunks)), crops_(std::move(crops)), memory_(std::move(memory)) {}
  ~CropSink() override { end(); }
  void end() noexcept override;

  WantedChunks& chunks() noexcept override { return *chunks_; }
  ReadBuffer buffer(std::uint64_t bytes, std::stop_token stop) override {
    return take_buffer(memory_.staging, bytes, std::move(stop));
  }
  bool takes_held_bytes() const noexcept override { return true; }
  void fail_read(std::size_t chunk, const Error& why) noexcept override { chunks_->fail_chunk(chunk, why); }
  bool take(std::size_t thread, std::size_t chunk, std::span<const std::byte> packed,
            std::span<const ByteRange> available, std::stop_token stop) noexcept override;

 private:
  void crop(std::uint32_t chunk, std::span<const std::byte> decoded);

  std::shared_ptr<Wave> wave_;
  std::shared_ptr<WantedChunks> chunks_;
  Crops crops_;
  DecodeMemory memory_;
};

}  // namespace damacy
