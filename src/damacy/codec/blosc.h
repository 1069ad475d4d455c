// The blosc1 container: header, start table, blocks of one or more streams, shuffle filters. Every (block, stream) has
// known source and destination ranges, so only needed blocks are decoded, and only bytes inside `available` are read.
// Knows no codec chain and no arrays.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "damacy/codec/bytes.h"
#include "damacy/codec/deflate.h"
#include "damacy/codec/ranges.h"
#include "damacy/codec/shuffle.h"
#include "damacy/codec/status.h"
#include "damacy/codec/zstd.h"

namespace damacy {

enum class BloscCodec : std::uint8_t { blosclz = 0, lz4 = 1, snappy = 2, zlib = 3, zstd = 4 };
enum class BloscFilter : std::uint8_t { none, bytes, bits };

// Validated: its values may be used as indices.
struct BloscHeader {
  static constexpr std::uint64_t kBytes = 16;
  static constexpr std::uint64_t kStartBytes = 4;
  static constexpr std::uint64_t kLengthBytes = 4;

  std::uint64_t nbytes = 0;
  std::uint64_t cbytes = 0;
  std::uint64_t blocksize = 1;
  std::uint64_t block_count = 0;  // 0 when memcpyed or empty
  std::uint32_t typesize = 1;
  BloscCodec codec = BloscCodec::lz4;
  BloscFilter filter = BloscFilter::none;
  bool memcpyed = false;  // the payload is the data, right behind the header
  bool splittable = false;

  [[nodiscard]] ShuffleFilter shuffle() const noexcept {  // when there is a filter
    return filter == BloscFilter::bytes ? ShuffleFilter::bytes : ShuffleFilter::bits;
  }
  [[nodiscard]] std::uint64_t table_end() const noexcept { return kBytes + kStartBytes * block_count; }
  [[nodiscard]] std::uint64_t block_begin(std::uint64_t block) const noexcept { return block * blocksize; }
  [[nodiscard]] std::uint64_t block_size(std::uint64_t block) const noexcept;
  [[nodiscard]] std::uint32_t splits(std::uint64_t block) const noexcept;
};

// The streams of a block. All have one size, in decoded bytes.
struct BloscStreams {
  std::uint32_t count = 1;
  std::uint64_t bytes = 0;
};
// DecodeStatus::frame if the block size is not a multiple of the stream count: some of its bytes would be in no stream.
[[nodiscard]] DecodeResult blosc_streams(const BloscHeader& header, std::uint64_t block,
                                         BloscStreams& streams) noexcept;

// `head` begins with the header's 16 bytes; `encoded_size` is the whole input's; `decoded_size` is N, or empty (null)
// for an intermediate stage.
[[nodiscard]] DecodeResult read_blosc_header(detail::ByteSpan head, std::uint64_t encoded_size,
                                             const std::uint64_t* decoded_size, BloscHeader& header) noexcept;

// Where a block begins; its entry of the table has been read.
[[nodiscard]] DecodeResult blosc_block_start(const BloscHeader& header, detail::ByteSpan encoded, std::uint64_t block,
                                             std::uint64_t& start) noexcept;

// One stream: its data in the encoded bytes. `position` is the offset of its length, and is advanced to the length of
// the next stream. need_more if length or data are outside `available`.
[[nodiscard]] DecodeResult blosc_stream(detail::ByteSpan encoded, std::span<const ByteRange> available,
                                        std::uint64_t stream_bytes, std::uint64_t& position, ByteRange& data) noexcept;

// Appends the ranges to read in addition to `head`, so that the blocks that `needed` touches can be decoded.
[[nodiscard]] DecodeResult blosc_partial_ranges(detail::ByteSpan head, std::uint64_t encoded_size,
                                                std::uint64_t decoded_size, std::span<const ByteRange> needed,
                                                std::vector<ByteRange>& ranges);

// The state that a thread keeps. References to the other decoders.
class BloscDecoder {
 public:
  [[nodiscard]] DecodeResult decode(detail::ByteSpan encoded, std::span<const ByteRange> available,
                                    detail::MutableByteSpan out, std::span<const ByteRange> needed, ZstdDecoder& zstd,
                                    InflateDecoder& inflate);

 private:
  std::unique_ptr<std::byte[]> block_;  // a block whose filter is still to be undone
  std::uint64_t block_capacity_ = 0;
};

}  // namespace damacy
