// Where the frames and blocks of a zstd input are, from their headers alone (RFC 8878).
// Every bound is checked here, before anything is decoded; nothing is allocated, nothing thrown, and it compiles for
// host and device. Knows no entropy coding: what a compressed block holds is the decoder's business.
#pragma once

#include <cstddef>
#include <cstdint>

#include "damacy/codec/bytes.h"
#include "damacy/codec/status.h"
#include "damacy/core/host_device_macro.h"
#include "damacy/core/limits.h"

namespace damacy {

// Offsets count from the input's first byte.
struct ZstdFrame {
  std::uint64_t begin = 0;   // of the magic number
  std::uint64_t blocks = 0;  // of the first block header; for a skippable frame of its content
  std::uint64_t end = 0;     // behind the checksum; 0 until the last block was walked
  std::uint64_t window = 0;  // never sizes an allocation
  std::uint64_t content_size = 0;
  std::uint64_t least = 0;  // what the blocks walked so far give at least, and at most
  std::uint64_t most = 0;
  std::uint64_t block_count = 0;
  std::uint32_t block_limit = 0;  // largest block, packed or not
  bool has_content_size = false;
  bool has_checksum = false;
  bool skippable = false;
};

enum class ZstdBlockType : std::uint8_t { raw = 0, rle = 1, compressed = 2 };

struct ZstdBlock {
  std::uint64_t begin = 0;   // of the block header
  std::uint64_t data = 0;    // of what follows it
  std::uint32_t stored = 0;  // bytes from `data` on
  std::uint32_t size = 0;    // decoded; 0 for a compressed block: its header does not say
  ZstdBlockType type = ZstdBlockType::raw;
  bool last = false;
  [[nodiscard]] DAMACY_HOST_DEVICE std::uint64_t end() const noexcept { return data + stored; }
};

// Checks the sizes in the headers of a whole input, frame by frame: call begin() after a frame's header and add() after
// its last block. Decoders on every device check this first.
struct ZstdExtent {
  std::uint64_t frames = 0;     // skippable ones included
  std::uint64_t unguarded = 0;  // frames whose content has no checksum
  std::uint64_t least = 0;      // decoded bytes: at least, at most; equal when every frame states its content size
  std::uint64_t most = 0;

  // `bound`: the most bytes that all frames together may decode to.
  [[nodiscard]] DAMACY_HOST_DEVICE DecodeResult begin(const ZstdFrame& frame, std::uint64_t bound) const noexcept {
    if (frame.content_size <= bound - least) return {};
    return detail::failed(DecodeStatus::size, "zstd: content size in a frame header", least + frame.content_size,
                          bound);
  }
  [[nodiscard]] DAMACY_HOST_DEVICE DecodeResult add(const ZstdFrame& frame, std::uint64_t bound) noexcept {
    ++frames;
    unguarded += !frame.skippable && !frame.has_checksum ? 1 : 0;
    least += frame.has_content_size ? frame.content_size : frame.least;
    most += frame.has_content_size ? frame.content_size : frame.most;
    if (least <= bound) return {};
    return detail::failed(DecodeStatus::size, "zstd: blocks give more bytes than expected", least, bound);
  }
  // Of an input that must decode to exactly `size` bytes; behind its last frame.
  [[nodiscard]] DAMACY_HOST_DEVICE DecodeResult reaches(std::uint64_t size) const noexcept {
    if (most >= size) return {};
    return detail::failed(DecodeStatus::size, "zstd: frames give fewer bytes than expected", most, size);
  }
};

// One pass over an input: next_frame, then next_block until block.last, and again until at_end.
class ZstdWalk {
 public:
  static constexpr std::uint32_t kMagic = 0xfd2fb528;
  static constexpr std::uint32_t kSkippableMagic = 0x184d2a50;  // the low four bits are free
  static constexpr std::uint32_t kBlockBytesMax = 128 << 10;
  static constexpr std::uint32_t kBlockHeaderBytes = 3;
  static constexpr std::uint32_t kChecksumBytes = 4;

  DAMACY_HOST_DEVICE ZstdWalk(const std::byte* data, std::uint64_t size) noexcept : data_(data), size_(size) {}

  [[nodiscard]] DAMACY_HOST_DEVICE bool at_end() const noexcept { return position_ == size_; }
  [[nodiscard]] DAMACY_HOST_DEVICE std::uint64_t position() const noexcept { return position_; }

  // A skippable frame is passed whole; of another one the header, so that its blocks come next.
  DAMACY_HOST_DEVICE DecodeResult next_frame(ZstdFrame& frame) noexcept {
    if (++frames_ > Limits::zstd_frames)
      return detail::failed(DecodeStatus::limit, "zstd: more frames than the limit", frames_, Limits::zstd_frames);
    frame = {};
    frame.begin = position_;
    if (left() < 4) return truncated("zstd: a frame's magic number is cut off", 4);
    const std::uint32_t magic = detail::read_le32(data_ + position_);
    if ((magic & 0xfffffff0u) == kSkippableMagic) return skippable_frame(frame);
    if (magic != kMagic) return detail::failed(DecodeStatus::frame, "zstd: magic number", magic, kMagic);
    position_ += 4;
    return frame_header(frame);
  }

  // Also brings `frame` up to date; behind the last block it passes the checksum.
  DAMACY_HOST_DEVICE DecodeResult next_block(ZstdFrame& frame, ZstdBlock& block) noexcept {
    if (left() < kBlockHeaderBytes) return truncated("zstd: a block header is cut off", kBlockHeaderBytes);
    const auto header = static_cast<std::uint32_t>(detail::read_le(data_ + position_, kBlockHeaderBytes));
    const std::uint32_t size = header >> 3;
    const unsigned type = (header >> 1) & 3;
    if (type == 3) return detail::failed(DecodeStatus::frame, "zstd: reserved block type", 3, 2);
    if (size > frame.block_limit)
      return detail::failed(DecodeStatus::frame, "zstd: block larger than its frame allows", size, frame.block_limit);
    block = {};
    block.begin = position_;
    block.data = position_ + kBlockHeaderBytes;
    block.type = static_cast<ZstdBlockType>(type);
    block.last = (header & 1) != 0;
    const bool compressed = block.type == ZstdBlockType::compressed;
    if (compressed && size < 2) return detail::failed(DecodeStatus::frame, "zstd: compressed block too small", size, 2);
    block.stored = block.type == ZstdBlockType::rle ? 1 : size;
    block.size = compressed ? 0 : size;
    position_ = block.data;
    if (left() < block.stored) return truncated("zstd: a block is cut off", block.stored);
    position_ += block.stored;
    frame.least += block.size;
    frame.most += compressed ? frame.block_limit : size;
    ++frame.block_count;
    return block.last ? frame_end(frame) : DecodeResult{};
  }

 private:
  [[nodiscard]] DAMACY_HOST_DEVICE std::uint64_t left() const noexcept { return size_ - position_; }

  DAMACY_HOST_DEVICE DecodeResult truncated(const char* detail, std::uint64_t wanted) const noexcept {
    return detail::failed(DecodeStatus::frame, detail, left(), wanted);
  }

  DAMACY_HOST_DEVICE DecodeResult skippable_frame(ZstdFrame& frame) noexcept {
    if (left() < 8) return truncated("zstd: a skippable frame's header is cut off", 8);
    const std::uint64_t length = detail::read_le32(data_ + position_ + 4);
    position_ += 8;
    frame.skippable = true;
    frame.has_content_size = true;
    frame.blocks = position_;
    if (left() < length) return truncated("zstd: a skippable frame is cut off", length);
    position_ += length;
    frame.end = position_;
    return {};
  }

  // From the descriptor byte to the first block.
  DAMACY_HOST_DEVICE DecodeResult frame_header(ZstdFrame& frame) noexcept {
    if (left() < 1) return truncated("zstd: a frame header is cut off", 1);
    const auto descriptor = static_cast<unsigned>(data_[position_++]);
    const bool single_segment = (descriptor & 0x20) != 0;
    const unsigned dictionary_flag = descriptor & 3;
    const unsigned size_flag = descriptor >> 6;
    if ((descriptor & 0x08) != 0) return detail::failed(DecodeStatus::frame, "zstd: reserved bit is set");
    frame.has_checksum = (descriptor & 0x04) != 0;
    frame.has_content_size = single_segment || size_flag != 0;
    const unsigned window_bytes = single_segment ? 0 : 1;
    const unsigned dictionary_bytes = dictionary_flag == 3 ? 4 : dictionary_flag;
    const unsigned size_bytes = frame.has_content_size ? 1u << size_flag : 0;
    const unsigned wanted = window_bytes + dictionary_bytes + size_bytes;
    if (left() < wanted) return truncated("zstd: a frame header is cut off", wanted);
    if (window_bytes != 0) frame.window = window_of(static_cast<unsigned>(data_[position_]));
    position_ += window_bytes;
    const std::uint64_t dictionary = detail::read_le(data_ + position_, dictionary_bytes);
    if (dictionary != 0) return detail::failed(DecodeStatus::dictionary, "zstd: dictionary id", dictionary);
    position_ += dictionary_bytes;
    frame.content_size = detail::read_le(data_ + position_, size_bytes) + (size_bytes == 2 ? 256 : 0);
    position_ += size_bytes;
    if (single_segment) frame.window = frame.content_size;
    if (frame.window > Limits::zstd_window)
      return detail::failed(DecodeStatus::limit, "zstd: window", frame.window, Limits::zstd_window);
    frame.block_limit = frame.window < kBlockBytesMax ? static_cast<std::uint32_t>(frame.window) : kBlockBytesMax;
    frame.blocks = position_;
    return {};
  }

  DAMACY_HOST_DEVICE static constexpr std::uint64_t window_of(unsigned byte) noexcept {
    const std::uint64_t base = std::uint64_t{1} << (10 + (byte >> 3));
    return base + (base >> 3) * (byte & 7);
  }

  DAMACY_HOST_DEVICE DecodeResult frame_end(ZstdFrame& frame) noexcept {
    if (frame.has_checksum) {
      if (left() < kChecksumBytes) return truncated("zstd: a content checksum is cut off", kChecksumBytes);
      position_ += kChecksumBytes;
    }
    frame.end = position_;
    if (!frame.has_content_size) return {};
    if (frame.content_size < frame.least)
      return detail::failed(DecodeStatus::size, "zstd: blocks give more than the frame's content size", frame.least,
                            frame.content_size);
    if (frame.content_size > frame.most)
      return detail::failed(DecodeStatus::size, "zstd: blocks give less than the frame's content size", frame.most,
                            frame.content_size);
    return {};
  }

  const std::byte* data_;
  std::uint64_t size_;
  std::uint64_t position_ = 0;
  std::uint64_t frames_ = 0;
};

}  // namespace damacy
