// Maps the frames of a wave to their chunks, and so finds the chunks that the host must decode after a failed frame.
// Knows status words; not waves. One thread at a time.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "damacy/codec/stream_decoder.h"

namespace damacy {

template <class Chunk>
class FrameOwners {
 public:
  // Some of `frames` may be decoded by the host.
  void own(std::span<const std::uint32_t> frames, Chunk& chunk) {
    for (const std::uint32_t frame : frames) {
      if (frame == FrameList::kHost) continue;
      if (chunks_.size() <= frame) chunks_.resize(std::size_t{frame} + 1, nullptr);
      chunks_[frame] = &chunk;
    }
  }

  // `redo` of each chunk with a frame that did not decode: the host does it, and words what is wrong. `status`: a word
  // a frame, as the decoder wrote them.
  void read_verdicts(std::span<const std::byte> status) const noexcept {
    for (std::size_t frame = 0; frame < chunks_.size() && 4 * frame < status.size(); ++frame) {
      std::uint32_t word = 0;
      std::memcpy(&word, status.data() + 4 * frame, sizeof word);
      const GpuVerdict verdict = verdict_of(word);
      if (chunks_[frame] != nullptr && (verdict.ask_host || !verdict.result.ok())) chunks_[frame]->redo = true;
    }
  }

 private:
  std::vector<Chunk*> chunks_;  // by frame
};

}  // namespace damacy
