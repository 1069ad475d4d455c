// Finds and checks the frames of an encoded chunk for a device, on the thread that read it. Of a chunk that is kept in
// a cache it writes a note, from which its frames are found without its bytes. Knows codecs and offsets in a wave's
// memory; not where elements go.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "damacy/codec/chain.h"
#include "damacy/codec/stream_decoder.h"
#include "damacy/copy/placement.h"
#include "damacy/wave/needed_blocks.h"

namespace damacy {

// Whether a device can decode chunks of this chain: one codec that has kernels, or none, and checksums around it.
[[nodiscard]] bool device_decodes(const CodecChain& codecs) noexcept;

struct StagedBytes {
  std::span<const std::byte> packed;
  std::uint64_t staged_at;   // of `packed`, in slab and source
  std::uint64_t decoded_at;  // in the destination
  std::uint64_t decoded_bytes;
  std::vector<ByteRange> needed;  // sorted, disjoint, not empty
  // Of a blosc chunk: `packed` and the destination have only these parts of it. Null: all.
  const NeededBlocks* blocks = nullptr;
};

// Where frames go: `own` hears their indices.
struct FrameSink {
  FrameList& frames;
  std::function<void(std::span<const std::uint32_t>)> own;  // some may be FrameList::kHost
};

struct StagedFrames {
  ChunkLayout layout;
  std::optional<std::uint64_t> in_source;  // the elements lie in the source as they are; else at `decoded_at`
  bool host = false;                       // the decoder leaves it to the host
  bool all = false;                        // every frame was found in `packed`, and the decoder has been asked
};

// An error says why a device cannot decode the chunk. The host then decodes it, as with found.host: only the host
// decoder decides whether a chunk is valid, so that the result is the same on every device.
[[nodiscard]] DecodeResult stage_frames(const CodecChain& codecs, const StagedBytes& chunk, const FrameSink& sink,
                                        StagedFrames& found);

// Appends the note to `note`. `chunk.packed` was staged without an error: checksums are not computed again. False: the
// chunk cannot be kept.
[[nodiscard]] bool describe_chunk(const CodecChain& codecs, std::span<const std::byte> packed,
                                  std::uint64_t decoded_bytes, const FrameList& list, std::vector<std::byte>& note);

// The same as stage_frames(), from a note, but the frames are appended to `frames`, to be added with those of other
// chunks. The encoded bytes are at `source` and the decoded ones go to `destination`, both counted from the wave's
// memory; `source` may lead out of it, modulo 2^64.
[[nodiscard]] StagedFrames find_described(std::span<const std::byte> note, std::uint64_t source,
                                          std::uint64_t destination, std::span<const ByteRange> needed,
                                          std::vector<FrameList::DescribedFrame>& frames);

}  // namespace damacy
