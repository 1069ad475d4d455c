#include "damacy/codec/blosc.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <utility>

#include "damacy/codec/blosclz.h"
#include "damacy/codec/lz4.h"
#include "damacy/codec/shuffle.h"
#include "damacy/codec/snappy.h"
#include "damacy/core/checked.h"
#include "damacy/core/limits.h"

namespace damacy {
namespace {

using detail::ByteSpan;
using detail::failed;
using detail::MutableByteSpan;

constexpr unsigned kByteShuffle = 0x01;
constexpr unsigned kMemcpyed = 0x02;
constexpr unsigned kBitShuffle = 0x04;
constexpr unsigned kReserved = 0x08;
constexpr unsigned kNotSplit = 0x10;

BloscFilter filter_of(unsigned flags, std::uint32_t typesize) noexcept {
  if ((flags & kByteShuffle) != 0 && typesize > 1) return BloscFilter::bytes;
  return (flags & kBitShuffle) != 0 ? BloscFilter::bits : BloscFilter::none;
}

DecodeResult check_codec(unsigned code) noexcept {
  if (code > static_cast<unsigned>(BloscCodec::zstd))
    return failed(DecodeStatus::frame, "blosc: unknown codec number", code, static_cast<unsigned>(BloscCodec::zstd));
  return {};
}

DecodeResult check_sizes(const BloscHeader& header, std::uint64_t encoded_size,
                         const std::uint64_t* decoded_size) noexcept {
  if (header.typesize < 1) return failed(DecodeStatus::frame, "blosc: typesize", header.typesize, 1);
  if (decoded_size != nullptr && header.nbytes != *decoded_size)
    return failed(DecodeStatus::size, "blosc: nbytes", header.nbytes, *decoded_size);
  if (header.nbytes > Limits::max_element_chunk_bytes)
    return failed(DecodeStatus::limit, "blosc: nbytes", header.nbytes, Limits::max_element_chunk_bytes);
  if (header.cbytes != encoded_size) return failed(DecodeStatus::frame, "blosc: cbytes", header.cbytes, encoded_size);
  const std::uint64_t largest = std::max<std::uint64_t>(header.nbytes, 1);
  if (header.blocksize < 1 || header.blocksize > largest)
    return failed(DecodeStatus::frame, "blosc: blocksize", header.blocksize, largest);
  return {};
}

DecodeResult check_table(const BloscHeader& header) noexcept {
  const std::uint64_t most = Limits::blosc_blocks(header.nbytes);
  if (header.block_count > most)
    return failed(DecodeStatus::limit, "blosc: more blocks than the limit", header.block_count, most);
  if (header.table_end() > header.cbytes)
    return failed(DecodeStatus::frame, "blosc: cbytes is too small for the start table", header.cbytes,
                  header.table_end());
  return {};
}

// Calls visit(block) for each block that a needed range touches, in order, each once, until one does not succeed.
template <class Visit>
DecodeResult for_each_needed_block(const BloscHeader& header, std::span<const ByteRange> needed, Visit visit) {
  std::uint64_t next = 0;
  for (const ByteRange& range : needed) {
    if (range.begin >= range.end) continue;
    const std::uint64_t last = (range.end - 1) / header.blocksize;
    for (next = std::max(next, range.begin / header.blocksize); next <= last; ++next)
      if (const DecodeResult result = visit(next); !result.ok()) return result;
  }
  return {};
}

DecodeResult copy_memcpyed(ByteSpan encoded, std::span<const ByteRange> available, MutableByteSpan out,
                           std::span<const ByteRange> needed) noexcept {
  for (const ByteRange& range : needed) {
    if (range.begin >= range.end) continue;
    if (!covers(available, BloscHeader::kBytes + range.begin, BloscHeader::kBytes + range.end))
      return failed(DecodeStatus::need_more, "blosc: copied bytes were not read", BloscHeader::kBytes + range.begin);
    std::memcpy(out.data() + range.begin, encoded.data() + BloscHeader::kBytes + range.begin, range.size());
  }
  return {};
}

DecodeResult copied_ranges(std::span<const ByteRange> needed, std::vector<ByteRange>& wanted) {
  for (const ByteRange& range : needed)
    if (range.begin < range.end) wanted.push_back({BloscHeader::kBytes + range.begin, BloscHeader::kBytes + range.end});
  return {};
}

// A writer's blocks are usually contiguous, so reading can stop at the next larger start. That is a hint, not a length:
// starts need not be in order, and decoding detects if it was too little.
void stop_at_next_start(const BloscHeader& header, ByteSpan head, std::vector<ByteRange>& wanted) noexcept {
  for (std::uint64_t block = 0; block < header.block_count; ++block) {
    const std::uint64_t start = detail::read_le32(head.data() + BloscHeader::kBytes + BloscHeader::kStartBytes * block);
    const auto behind = std::ranges::lower_bound(wanted, start, {}, &ByteRange::begin);
    if (behind != wanted.begin()) std::prev(behind)->end = std::min(std::prev(behind)->end, start);
  }
}

// `head` holds the whole start table. Gives one range a distinct start, sorted.
DecodeResult block_ranges(const BloscHeader& header, ByteSpan head, std::span<const ByteRange> needed,
                          std::vector<ByteRange>& wanted) {
  const DecodeResult result = for_each_needed_block(header, needed, [&](std::uint64_t block) {
    std::uint64_t start = 0;
    const DecodeResult found = blosc_block_start(header, head, block, start);
    const std::uint64_t lengths = BloscHeader::kLengthBytes * header.splits(block);
    if (found.ok()) wanted.push_back({start, std::min(header.cbytes, start + header.block_size(block) + lengths)});
    return found;
  });
  if (!result.ok()) return result;
  std::ranges::sort(wanted, {}, [](const ByteRange& r) { return std::pair(r.begin, ~r.end); });
  const auto repeated = std::ranges::unique(wanted, {}, &ByteRange::begin);
  wanted.erase(repeated.begin(), repeated.end());
  stop_at_next_start(header, head, wanted);
  return {};
}

// Sorted `wanted` without what lies before `from`, overlaps and neighbours made one.
void append_merged(std::span<const ByteRange> wanted, std::uint64_t from, std::vector<ByteRange>& ranges) {
  const std::size_t first = ranges.size();
  for (const ByteRange& range : wanted) {
    const std::uint64_t begin = std::max(range.begin, from);
    if (begin >= range.end) continue;
    if (ranges.size() > first && ranges.back().end == begin)
      ranges.back().end = range.end;
    else
      ranges.push_back({begin, range.end});
    from = range.end;
  }
}

// The decoding of one chunk: everything that does not change from block to block.
struct Job {
  const BloscHeader& header;
  ByteSpan encoded;
  std::span<const ByteRange> available;
  ZstdDecoder& zstd;
  InflateDecoder& inflate;

  // A stream that is not stored raw.
  DecodeResult unpack(ByteSpan packed, MutableByteSpan out) const noexcept {
    switch (header.codec) {
      case BloscCodec::lz4:
        return decode_lz4_block(packed, out);
      case BloscCodec::zstd:
        return zstd.decode(packed, out, out.size());
      case BloscCodec::zlib:
        return inflate.decode_zlib(packed, out);
      case BloscCodec::blosclz:
        return decode_blosclz(packed, out);
      case BloscCodec::snappy:
        return decode_snappy(packed, out);
    }
    return check_codec(static_cast<unsigned>(header.codec));
  }

  // Calls use(i, packed) for each stream of a block.
  template <class Use>
  DecodeResult for_each_stream(std::uint64_t block, const BloscStreams& streams, Use use) const {
    const std::uint64_t entry = BloscHeader::kBytes + BloscHeader::kStartBytes * block;
    if (!covers(available, entry, entry + BloscHeader::kStartBytes))
      return failed(DecodeStatus::need_more, "blosc: the start table was not read", entry);
    std::uint64_t position = 0;
    if (const DecodeResult result = blosc_block_start(header, encoded, block, position); !result.ok()) return result;
    for (std::uint32_t i = 0; i < streams.count; ++i) {
      ByteRange data;
      DecodeResult result = blosc_stream(encoded, available, streams.bytes, position, data);
      if (result.ok()) result = use(i, encoded.subspan(data.begin, data.size()));
      if (!result.ok()) return result;
    }
    return {};
  }

  DecodeResult unfiltered_block(std::uint64_t block, const BloscStreams& streams, MutableByteSpan out) const {
    const std::uint64_t size = streams.bytes;
    return for_each_stream(block, streams, [&](std::uint32_t i, ByteSpan packed) {
      const MutableByteSpan part = out.subspan(i * size, size);
      if (packed.size() < size) return unpack(packed, part);
      std::memcpy(part.data(), packed.data(), size);
      return DecodeResult{};
    });
  }

  // Raw streams are un-shuffled without a copy. About half of the bytes of noisy images are raw.
  DecodeResult filtered_block(std::uint64_t block, const BloscStreams& streams, MutableByteSpan out,
                              MutableByteSpan scratch) const {
    const std::uint64_t size = streams.bytes;
    std::array<const std::byte*, 16> planes;
    const DecodeResult result = for_each_stream(block, streams, [&](std::uint32_t i, ByteSpan packed) {
      const MutableByteSpan part = scratch.subspan(i * size, size);
      const bool raw = packed.size() == size;
      planes[i] = raw ? packed.data() : part.data();
      return raw ? DecodeResult{} : unpack(packed, part);
    });
    if (!result.ok()) return result;
    if (streams.count == 1)
      unshuffle_block(header.shuffle(), header.typesize, {planes[0], size}, out);
    else
      unshuffle(header.shuffle(), {planes.data(), streams.count}, size, out.data());
    return {};
  }

  DecodeResult block(std::uint64_t block, MutableByteSpan out, MutableByteSpan scratch) const {
    BloscStreams streams;
    if (const DecodeResult result = blosc_streams(header, block, streams); !result.ok()) return result;
    const bool plain = header.filter == BloscFilter::none || out.size() < header.typesize;
    return plain ? unfiltered_block(block, streams, out) : filtered_block(block, streams, out, scratch);
  }
};

}  // namespace

std::uint64_t BloscHeader::block_size(std::uint64_t block) const noexcept {
  return std::min(blocksize, nbytes - block_begin(block));
}

std::uint32_t BloscHeader::splits(std::uint64_t block) const noexcept {
  const std::uint64_t size = block_size(block);
  const bool split = splittable && typesize <= 16 && size / typesize >= 128 && size == blocksize;
  return split ? typesize : 1;
}

DecodeResult blosc_streams(const BloscHeader& header, std::uint64_t block, BloscStreams& streams) noexcept {
  const std::uint64_t size = header.block_size(block);
  streams.count = header.splits(block);
  streams.bytes = size / streams.count;
  if (size % streams.count != 0)
    return failed(DecodeStatus::frame, "blosc: a block does not divide into its streams", size, streams.count);
  return {};
}

DecodeResult read_blosc_header(ByteSpan head, std::uint64_t encoded_size, const std::uint64_t* decoded_size,
                               BloscHeader& header) noexcept {
  if (head.size() < BloscHeader::kBytes || encoded_size < BloscHeader::kBytes)
    return failed(DecodeStatus::frame, "blosc: the header is cut off",
                  std::min<std::uint64_t>(head.size(), encoded_size), BloscHeader::kBytes);
  const auto byte = [&](std::size_t i) { return static_cast<unsigned>(head[i]); };
  if (byte(0) != 2) return failed(DecodeStatus::frame, "blosc: version", byte(0), 2);
  if (byte(1) != 1) return failed(DecodeStatus::frame, "blosc: inner version", byte(1), 1);
  const unsigned flags = byte(2);
  if ((flags & kReserved) != 0) return failed(DecodeStatus::frame, "blosc: reserved flag", flags, flags & ~kReserved);
  header = {};
  header.typesize = byte(3);
  header.nbytes = detail::read_le32(head.data() + 4);
  header.blocksize = detail::read_le32(head.data() + 8);
  header.cbytes = detail::read_le32(head.data() + 12);
  if (const DecodeResult result = check_sizes(header, encoded_size, decoded_size); !result.ok()) return result;
  header.memcpyed = (flags & kMemcpyed) != 0;
  header.filter = filter_of(flags, header.typesize);
  header.splittable = (flags & kNotSplit) == 0;
  header.codec = static_cast<BloscCodec>(flags >> 5);
  if (const DecodeResult result = check_codec(flags >> 5); !result.ok()) return result;
  if (header.memcpyed) {
    if (header.cbytes != header.nbytes + BloscHeader::kBytes)
      return failed(DecodeStatus::frame, "blosc: cbytes of copied data", header.cbytes,
                    header.nbytes + BloscHeader::kBytes);
    return {};
  }
  if (header.nbytes == 0) {
    if (header.cbytes != BloscHeader::kBytes)
      return failed(DecodeStatus::frame, "blosc: cbytes of no data", header.cbytes, BloscHeader::kBytes);
    return {};
  }
  header.block_count = ceil_div(header.nbytes, header.blocksize);
  return check_table(header);
}

DecodeResult blosc_block_start(const BloscHeader& header, ByteSpan encoded, std::uint64_t block,
                               std::uint64_t& start) noexcept {
  const std::uint64_t entry = BloscHeader::kBytes + BloscHeader::kStartBytes * block;
  start = detail::read_le32(encoded.data() + entry);  // signed on disk: a negative one is far beyond cbytes here
  if (start < header.table_end())
    return failed(DecodeStatus::frame, "blosc: a block starts inside the start table", start, header.table_end());
  if (start + BloscHeader::kLengthBytes > header.cbytes)
    return failed(DecodeStatus::frame, "blosc: a block starts behind the frame", start,
                  header.cbytes - BloscHeader::kLengthBytes);
  return {};
}

DecodeResult blosc_stream(ByteSpan encoded, std::span<const ByteRange> available, std::uint64_t stream_bytes,
                          std::uint64_t& position, ByteRange& data) noexcept {
  const std::uint64_t left = encoded.size() - position;
  if (left < BloscHeader::kLengthBytes)
    return failed(DecodeStatus::frame, "blosc: a stream's length is cut off", left, BloscHeader::kLengthBytes);
  if (!covers(available, position, position + BloscHeader::kLengthBytes))
    return failed(DecodeStatus::need_more, "blosc: a stream's length was not read", position);
  const std::uint64_t length = detail::read_le32(encoded.data() + position);
  if (length < 1 || length > stream_bytes)
    return failed(DecodeStatus::frame, "blosc: length of a stream", length, stream_bytes);
  if (length > left - BloscHeader::kLengthBytes)
    return failed(DecodeStatus::frame, "blosc: a stream is cut off", left - BloscHeader::kLengthBytes, length);
  data.begin = position + BloscHeader::kLengthBytes;
  data.end = data.begin + length;
  if (!covers(available, data.begin, data.end))
    return failed(DecodeStatus::need_more, "blosc: a stream was not read", data.begin);
  position = data.end;
  return {};
}

DecodeResult blosc_partial_ranges(ByteSpan head, std::uint64_t encoded_size, std::uint64_t decoded_size,
                                  std::span<const ByteRange> needed, std::vector<ByteRange>& ranges) {
  if (head.size() < std::min(encoded_size, BloscHeader::kBytes))
    return failed(DecodeStatus::need_more, "blosc: the head ends inside the header", head.size(), BloscHeader::kBytes);
  BloscHeader header;
  const DecodeResult read = read_blosc_header(head, encoded_size, &decoded_size, header);
  if (!read.ok()) return read;
  if (!header.memcpyed && head.size() < header.table_end())
    return failed(DecodeStatus::need_more, "blosc: the head ends inside the start table", head.size(),
                  header.table_end());
  std::vector<ByteRange> wanted;
  const DecodeResult result =
      header.memcpyed ? copied_ranges(needed, wanted) : block_ranges(header, head, needed, wanted);
  if (!result.ok()) return result;
  append_merged(wanted, head.size(), ranges);
  return {};
}

DecodeResult BloscDecoder::decode(ByteSpan encoded, std::span<const ByteRange> available, MutableByteSpan out,
                                  std::span<const ByteRange> needed, ZstdDecoder& zstd, InflateDecoder& inflate) {
  if (encoded.size() >= BloscHeader::kBytes && !covers(available, 0, BloscHeader::kBytes))
    return failed(DecodeStatus::need_more, "blosc: the header was not read");
  const std::uint64_t decoded_size = out.size();
  BloscHeader header;
  const DecodeResult read = read_blosc_header(encoded, encoded.size(), &decoded_size, header);
  if (!read.ok()) return read;
  if (header.memcpyed) return copy_memcpyed(encoded, available, out, needed);
  if (header.filter != BloscFilter::none && block_capacity_ < header.blocksize) {
    block_ = std::make_unique_for_overwrite<std::byte[]>(header.blocksize);
    block_capacity_ = header.blocksize;
  }
  const Job job{header, encoded, available, zstd, inflate};
  return for_each_needed_block(header, needed, [&](std::uint64_t block) {
    return job.block(block, out.subspan(header.block_begin(block), header.block_size(block)),
                     {block_.get(), block_capacity_});
  });
}

}  // namespace damacy
