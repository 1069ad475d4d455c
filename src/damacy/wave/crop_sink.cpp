#include "damacy/wave/crop_sink.h"

#include <algorithm>

#include "damacy/copy/block_copy.h"
#include "damacy/wave/stage_chunk.h"

namespace damacy {

void CropSink::end() noexcept {
  for (auto& [number, of_chunk] : crops_)
    if (!of_chunk.done) of_chunk.staged->failed = true;
  crops_.clear();
}

bool CropSink::take(std::size_t thread, std::size_t chunk, std::span<const std::byte> packed,
                    std::span<const ByteRange> available, std::stop_token stop) noexcept {
  try {
    return decode_on_host(
        *chunks_, {thread, chunk, packed, available, std::move(stop)}, memory_,
        [&] { return chunks_->needed_bytes(chunk); },
        [&](std::span<const std::byte> decoded) { crop(static_cast<std::uint32_t>(chunk), decoded); });
  } catch (...) {
    chunks_->fail_chunk(chunk, current_error());
    return true;
  }
}

void CropSink::crop(std::uint32_t chunk, std::span<const std::byte> decoded) {
  CropsOfChunk& of_chunk = crops_.at(chunk);
  StagedChunk& staged = *of_chunk.staged;
  for (const CropsOfChunk::Crop& one : of_chunk.crops) {
    run_block_copy(crop_of(one.copy), decoded, one.staged.memory());
    add_crop(staged.share->placements, one.copy, wave_->source_address(one.staged.begin()));
  }
  if (const auto& whole = of_chunk.whole) {
    std::ranges::copy(decoded.subspan(whole->bytes.begin, whole->bytes.size()), whole->staged.memory().begin());
    ChunkLayout layout;
    layout.chunk_bytes = decoded.size();
    add_placements(staged.share->placements, staged, WantedChunks::From::chunk,
                   wave_->source_address(whole->staged.begin()) - whole->bytes.begin, layout);
  }
  of_chunk.done = true;
}

}  // namespace damacy
