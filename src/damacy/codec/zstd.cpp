#include "damacy/codec/zstd.h"

#define ZSTD_STATIC_LINKING_ONLY  // decoding block by block into the output, without a window buffer
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <new>

namespace damacy {
namespace {

using detail::ByteSpan;
using detail::failed;
using detail::MutableByteSpan;

constexpr std::uint64_t kWhole = ~std::uint64_t{0};  // as many bytes as a frame has, verified to its end

DecodeResult library_error(std::size_t code, ByteSpan frame, std::uint64_t capacity) noexcept {
  switch (ZSTD_getErrorCode(code)) {
    case ZSTD_error_checksum_wrong:
      return failed(DecodeStatus::checksum, "zstd: content checksum differs from the stored one",
                    detail::read_le32(frame.data() + frame.size() - ZstdWalk::kChecksumBytes));
    case ZSTD_error_dstSize_tooSmall:
      return failed(DecodeStatus::size, "zstd: a frame gives more bytes than expected", capacity + 1, capacity);
    default:
      return failed(DecodeStatus::frame, "zstd: a frame does not decode; libzstd error code", ZSTD_getErrorCode(code));
  }
}

// Walks the blocks of a frame whose header was just read.
DecodeResult walk_blocks(ZstdWalk& walk, ZstdFrame& frame, std::uint64_t& blocks, std::uint64_t most_blocks) noexcept {
  ZstdBlock block;
  while (!frame.skippable && !block.last) {
    if (++blocks > most_blocks)
      return failed(DecodeStatus::limit, "zstd: more blocks than the limit", blocks, most_blocks);
    if (const DecodeResult result = walk.next_block(frame, block); !result.ok()) return result;
  }
  return {};
}

}  // namespace

DecodeResult check_zstd(ByteSpan encoded, std::uint64_t bound, ZstdExtent& extent) noexcept {
  extent = {};
  ZstdWalk walk(encoded.data(), encoded.size());
  std::uint64_t blocks = 0;
  while (!walk.at_end()) {
    ZstdFrame frame;
    if (const DecodeResult result = walk.next_frame(frame); !result.ok()) return result;
    if (const DecodeResult result = extent.begin(frame, bound); !result.ok()) return result;
    const DecodeResult result = walk_blocks(walk, frame, blocks, Limits::zstd_blocks(bound));
    if (!result.ok()) return result;
    if (const DecodeResult added = extent.add(frame, bound); !added.ok()) return added;
  }
  return {};
}

void ZstdDecoder::Freer::operator()(ZSTD_DCtx_s* context) const noexcept {
  ZSTD_freeDCtx(context);
}

ZstdDecoder::ZstdDecoder() : context_(ZSTD_createDCtx()) {
  if (!context_) throw std::bad_alloc();
}
ZstdDecoder::~ZstdDecoder() = default;
ZstdDecoder::ZstdDecoder(ZstdDecoder&&) noexcept = default;
ZstdDecoder& ZstdDecoder::operator=(ZstdDecoder&&) noexcept = default;

DecodeResult ZstdDecoder::decode(ByteSpan encoded, MutableByteSpan out, std::uint64_t needed_end) noexcept {
  ZstdExtent extent;
  if (const DecodeResult result = check_zstd(encoded, out.size(), extent); !result.ok()) return result;
  if (const DecodeResult result = extent.reaches(out.size()); !result.ok()) return result;
  needed_end = std::min<std::uint64_t>(needed_end, out.size());
  std::uint64_t produced = 0;
  if (const DecodeResult result = decode_frames(encoded, out, needed_end, produced); !result.ok()) return result;
  if (produced < needed_end || (needed_end == out.size() && produced != out.size()))
    return failed(DecodeStatus::size, "zstd: decoded size", produced, out.size());
  return {};
}

DecodeResult ZstdDecoder::decode_up_to(ByteSpan encoded, MutableByteSpan out, std::uint64_t& produced) noexcept {
  ZstdExtent extent;
  produced = 0;
  if (const DecodeResult result = check_zstd(encoded, out.size(), extent); !result.ok()) return result;
  return decode_frames(encoded, out, kWhole, produced);
}

// `produced` runs past needed_end when the frames behind it say how long they are.
DecodeResult ZstdDecoder::decode_frames(ByteSpan encoded, MutableByteSpan out, std::uint64_t needed_end,
                                        std::uint64_t& produced) noexcept {
  ZstdWalk walk(encoded.data(), encoded.size());
  while (!walk.at_end()) {
    ZstdFrame frame;
    std::uint64_t blocks = 0;
    if (const DecodeResult result = walk.next_frame(frame); !result.ok()) return result;
    if (const DecodeResult result = walk_blocks(walk, frame, blocks, encoded.size()); !result.ok()) return result;
    if (frame.skippable) continue;
    const ByteSpan bytes = encoded.subspan(frame.begin, frame.end - frame.begin);
    const std::uint64_t room = out.size() - produced;
    const MutableByteSpan rest =
        out.subspan(produced, frame.has_content_size ? std::min(room, frame.content_size) : room);
    const std::uint64_t needed = needed_end > produced ? needed_end - produced : 0;
    const bool whole = frame.has_checksum || needed >= rest.size();
    std::uint64_t got = 0;
    const DecodeResult result = decode_frame(bytes, rest, whole ? kWhole : needed, got);
    if (!result.ok()) return result;
    produced += frame.has_content_size ? rest.size() : got;
  }
  return {};
}

// Block by block, which costs nothing over decoding at once, and no further than the block that holds byte wanted - 1.
// A whole frame's size and checksum are verified by the library.
DecodeResult ZstdDecoder::decode_frame(ByteSpan frame, MutableByteSpan out, std::uint64_t wanted,
                                       std::uint64_t& produced) noexcept {
  ZSTD_decompressBegin(context_.get());
  std::uint64_t position = 0;
  produced = 0;
  while (produced < wanted) {
    const std::size_t step = ZSTD_nextSrcSizeToDecompress(context_.get());
    if (step == 0) break;
    if (step > frame.size() - position)
      return failed(DecodeStatus::frame, "zstd: a frame is cut off", frame.size() - position, step);
    const std::size_t got = ZSTD_decompressContinue(context_.get(), out.data() + produced, out.size() - produced,
                                                    frame.data() + position, step);
    if (ZSTD_isError(got)) return library_error(got, frame, out.size());
    position += step;
    produced += got;
  }
  return {};
}

}  // namespace damacy
