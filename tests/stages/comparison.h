// Compares what a device and the host's decoder make of encoded chunks. Chunks are staged as readers stage them,
// decoded as one wave and placed; all memory has canaries between and behind its parts. Knows one wave; not where
// chunks come from.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "damacy/codec/stream_decoder.h"
#include "damacy/copy/placement.h"
#include "damacy/device/device.h"
#include "damacy/wave/stage_frames.h"
#include "stages/random_chunks.h"

namespace damacy::stages {

struct Tally {
  std::uint64_t chunks = 0;
  std::uint64_t delivered = 0;  // by the device; the others are the host's
  std::uint64_t host_good = 0;  // of those, good
  std::uint64_t refused = 0;    // of those, not
  // Findings. Delivered with other bytes than the host's, or although the host refuses; canaries that were overwritten.
  std::uint64_t different = 0, apart = 0, escaped = 0;

  std::uint64_t findings() const { return different + apart + escaped; }
  void add(const Tally& more);
};

class Comparison {
 public:
  // `found` hears of each finding: which of the chunks, and what.
  using Found = std::function<void(std::size_t chunk, const std::string& what)>;
  Comparison(std::shared_ptr<Device> device, std::unique_ptr<StreamDecoder> decoder, std::unique_ptr<Copier> copier);

  // Waits for the device; the host decodes meanwhile.
  Tally run(std::span<const Chunk> chunks, const Found& found);

 private:
  struct Staged {  // a chunk
    std::uint64_t source = 0, destination = 0;
    std::array<std::uint64_t, 2> outs = {};  // by want
    std::optional<NeededBlocks> blocks;      // only these are staged and decoded
    StagedFrames found;
    bool on_host = false;
    std::vector<std::uint32_t> frames;
    DecodeResult on_host_result;
  };
  // Memory here and its like on the device, with canaries behind what is used.
  struct Pair {
    HostBuffer host, device;
    std::uint64_t used = 0;
    void need(Device& on, std::uint64_t bytes);
    std::span<std::byte> here() const { return host.bytes().first(used + kGuard); }
    std::span<std::byte> there() const { return device.bytes().first(used + kGuard); }
  };
  static constexpr std::uint64_t kGuard = 256;

  static std::optional<NeededBlocks> blocks_of(const Chunk& chunk);
  void lay_out(std::span<const Chunk> chunks);
  void stage(std::span<const Chunk> chunks);
  Event start();
  void decode_on_host(std::span<const Chunk> chunks);
  bool delivered(const Staged& staged) const;
  bool same_bytes(const Chunk& chunk, const Staged& staged) const;
  void compare(std::span<const Chunk> chunks, const Found& found, Tally& tally) const;
  std::uint64_t escaped(std::span<const Chunk> chunks) const;
  // Bytes of [begin, end) that are not the poison any more.
  std::uint64_t touched(const Pair& memory, std::uint64_t begin, std::uint64_t end) const;

  std::shared_ptr<Device> device_;
  std::unique_ptr<StreamDecoder> decoder_;
  std::unique_ptr<Copier> copier_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<FrameList> list_;
  PlacementList placements_;
  DecodeContext context_;
  Pair source_, destination_, out_, scratch_, frames_image_, placements_image_, status_;
  std::vector<Staged> staged_;
  Bytes expected_;  // as out_
  Bytes decoded_;
  std::uint8_t poison_ = 0;  // another one each run
};

}  // namespace damacy::stages
