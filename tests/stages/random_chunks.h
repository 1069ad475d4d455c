// Encoded chunks of every chain that a device decodes, as writers leave them or damaged, and boxes that are wanted of
// them. A seed gives the same chunks again. Encoding costs more than decoding, so a source encodes a few frames and
// changes each of them in many ways. Knows formats and block copies; decodes nothing.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "damacy/codec/chain.h"
#include "damacy/codec/ranges.h"
#include "damacy/copy/block_copy.h"
#include "support/blosc_writer.h"
#include "support/zstd_frames.h"

namespace damacy::stages {

using Bytes = std::vector<std::byte>;
using gpu::testing::below;
using gpu::testing::Random;

// A box of a chunk on its way to memory of its own, row-major there.
struct Want {
  BlockCopy copy;  // normalised; both sides count from their first byte
  std::uint64_t bytes = 0;
};

struct Chunk {
  const CodecChain* codecs = nullptr;
  Bytes encoded;
  std::uint64_t bytes = 0;  // decoded
  bool mutated = false;
  std::vector<Want> wants;
  std::vector<ByteRange> needed;  // of the decoded chunk; sorted, disjoint
};

// A frame without the checksums that chains put around it.
struct Frame {
  enum class Kind { raw, zstd, blosc, lz4 };
  Kind kind = Kind::raw;
  Bytes encoded;
  std::uint64_t bytes = 0;
};

inline const CodecChain& chain_of(Frame::Kind kind, unsigned checksums) {
  static const std::vector<CodecChain> chains = [] {
    std::vector<CodecChain> all;
    const CodecId ids[] = {CodecId::zstd, CodecId::zstd, CodecId::blosc, CodecId::lz4};
    for (int of_kind = 0; of_kind < 4; ++of_kind)
      for (int around = 0; around < 4; ++around) {
        std::vector<CodecSpec> codecs;
        if (of_kind != 0) codecs.push_back({.id = ids[of_kind], .name = "codec"});
        if ((around & 1) != 0) codecs.push_back({.id = CodecId::crc32c, .name = "crc32c"});
        if ((around & 2) != 0) codecs.push_back({.id = CodecId::crc32c, .checksum_at_start = true, .name = "crc32c"});
        all.emplace_back(std::move(codecs));
      }
    return all;
  }();
  return chains[static_cast<std::size_t>(kind) * 4 + checksums % 4];
}

// A stream of a blosc block, as its packer leaves it.
inline Bytes packed_stream(Random& random, BloscCodec codec, std::size_t bytes) {
  const Bytes raw = gpu::testing::random_content(random, bytes);
  if (random() % 12 == 0) return raw;
  Bytes packed = codec == BloscCodec::lz4 ? gpu::testing::lz4_block(raw, 1) : Bytes();
  if (codec == BloscCodec::zstd) gpu::testing::ZstdWriter{.level = 1}.append(raw, packed);
  return packed.size() < raw.size() ? packed : raw;
}

// Blosc as the format allows it and a little beyond: any typesize and blocksize, blocks that streams do not divide,
// both filters at once. What streams hold counts as filtered.
inline Bytes random_blosc(Random& random, std::size_t bytes) {
  using codec_test::append;
  using codec_test::append_le;
  constexpr std::array<std::size_t, 14> kTypesizes{1, 2, 2, 3, 4, 4, 5, 7, 8, 12, 16, 17, 32, 255};
  const std::size_t typesize = kTypesizes[below(random, kTypesizes.size())];
  if (random() % 16 == 0)
    return codec_test::blosc_memcpyed(gpu::testing::noise(random, bytes), random() % 8 & 5,
                                      static_cast<unsigned>(typesize));
  const std::size_t unit = random() % 3 == 0 ? 1 : (random() % 2 == 0 ? 8 : 1) * typesize;
  std::size_t blocksize = 64 + below(random, random() % 2 == 0 ? bytes : std::min<std::size_t>(bytes, 1500));
  blocksize = std::clamp<std::size_t>(blocksize / unit * unit, 1, bytes);
  if (bytes / blocksize > 40) blocksize = bytes / 40;
  const BloscCodec codec = random() % 2 == 0 ? BloscCodec::lz4 : BloscCodec::zstd;
  const bool split = random() % 2 == 0;
  const std::size_t blocks = (bytes + blocksize - 1) / blocksize;
  Bytes starts, body;
  for (std::size_t block = 0; block < blocks; ++block) {
    const std::size_t size = std::min(blocksize, bytes - block * blocksize);
    const bool splits = split && typesize <= 16 && size / typesize >= 128 && size == blocksize;
    const std::size_t streams = splits ? typesize : 1;
    append_le(starts, 16 + 4 * blocks + body.size(), 4);
    for (std::size_t stream = 0; stream < streams; ++stream) {
      const Bytes packed = packed_stream(random, codec, size / streams);
      append_le(body, packed.size(), 4);
      append(body, packed);
    }
  }
  constexpr std::array<unsigned, 5> kFilters{0, 1, 1, 4, 5};
  const unsigned flags =
      static_cast<unsigned>(codec) << 5 | kFilters[below(random, kFilters.size())] | (split ? 0u : 0x10u);
  return codec_test::joined({codec_test::blosc_header(flags, static_cast<unsigned>(typesize), bytes, blocksize,
                                                      16 + starts.size() + body.size()),
                             starts, body});
}

// Often with small windows, and so of many blocks: what a box needs ends within a frame.
inline Bytes random_zstd(Random& random, std::size_t bytes) {
  const Bytes raw = gpu::testing::random_content(random, bytes);
  if (random() % 3 != 0) return gpu::testing::random_zstd(random, raw);
  Bytes encoded;
  gpu::testing::ZstdWriter{.level = 1 + static_cast<int>(random() % 3),
                           .window_log = 10 + static_cast<int>(random() % 3),
                           .checksum = random() % 4 == 0,
                           .content_size = random() % 2 == 0}
      .append(raw, encoded);
  return encoded;
}

inline Frame random_frame(Random& random) {
  Frame frame;
  const std::uint64_t most = random() % 64 == 0 ? 200000 : random() % 4 == 0 ? 9000 : random() % 2 == 0 ? 2500 : 400;
  frame.bytes = 1 + below(random, most);
  if (random() % 4 != 0) frame.bytes = (frame.bytes + 7) / 8 * 8;  // whole elements of any size
  const std::uint64_t kind = random() % 16;
  frame.kind = kind == 0   ? Frame::Kind::raw
               : kind < 6  ? Frame::Kind::zstd
               : kind < 13 ? Frame::Kind::blosc
                           : Frame::Kind::lz4;
  if (frame.kind == Frame::Kind::blosc) frame.encoded = random_blosc(random, frame.bytes);
  if (frame.kind == Frame::Kind::zstd) frame.encoded = random_zstd(random, frame.bytes);
  if (frame.kind == Frame::Kind::raw) frame.encoded = gpu::testing::noise(random, frame.bytes);
  if (frame.kind == Frame::Kind::lz4) {
    codec_test::append_le(frame.encoded, frame.bytes, 4);
    const Bytes raw = gpu::testing::random_content(random, frame.bytes);
    codec_test::append(frame.encoded, gpu::testing::lz4_block(raw, 1));
  }
  return frame;
}

// Bits and bytes anywhere, and 32-bit numbers of headers by a little; `other` gives bytes that mean something.
inline void damage(Random& random, Bytes& bytes, const Bytes& other) {
  for (std::uint64_t left = 1 + random() % 3; left != 0 && !bytes.empty(); --left) {
    const std::size_t head = std::min<std::size_t>(bytes.size(), random() % 2 == 0 ? 24 : 60);
    const std::size_t at = random() % 2 == 0 ? below(random, head) : below(random, bytes.size());
    switch (random() % 8) {
      case 0:
      case 1:
        bytes[at] = gpu::testing::byte_of(random());
        break;
      case 2:
      case 3:
        bytes[at] ^= gpu::testing::byte_of(1u << random() % 8);
        break;
      case 4:
        bytes.resize(bytes.size() - below(random, std::min<std::size_t>(bytes.size(), 9)));
        break;
      case 5:
        bytes.resize(bytes.size() + below(random, 9), gpu::testing::byte_of(random()));
        break;
      case 6: {
        const std::size_t count = std::min({other.size(), bytes.size() - at, 1 + below(random, 32)});
        if (count > 0) std::memcpy(&bytes[at], &other[below(random, other.size() - count + 1)], count);
        break;
      }
      default:
        if (at + 4 <= bytes.size()) {
          std::uint32_t value = 0;
          std::memcpy(&value, &bytes[at], 4);
          value += static_cast<std::uint32_t>(random() % 17) - 8;
          std::memcpy(&bytes[at], &value, 4);
        }
    }
  }
}

// The length in a blosc header, after damage that changed it.
inline void repair(Frame::Kind kind, Bytes& encoded) {
  if (kind != Frame::Kind::blosc || encoded.size() < 16) return;
  const auto size = static_cast<std::uint32_t>(encoded.size());
  std::memcpy(&encoded[12], &size, 4);
}

// A box of one or two axes of a chunk that is seen as rows.
inline Want random_want(Random& random, std::uint64_t bytes) {
  constexpr std::array<Dtype, 4> kDtypes{Dtype::u8, Dtype::u16, Dtype::u32, Dtype::u64};
  std::size_t which = below(random, 4);
  while (bytes % size_of(kDtypes[which]) != 0) --which;
  const Dtype dtype = kDtypes[which];
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t elements = static_cast<std::int64_t>(bytes) / size;
  const auto part = [&](std::int64_t extent, std::int64_t& start) {
    start = random() % 2 == 0 ? 0 : static_cast<std::int64_t>(below(random, static_cast<std::size_t>(extent)));
    const auto rest = static_cast<std::size_t>(extent - start);
    return random() % 2 == 0 ? extent - start : 1 + static_cast<std::int64_t>(below(random, rest));
  };
  const std::int64_t columns =
      random() % 2 == 0 ? elements : 1 + static_cast<std::int64_t>(below(random, static_cast<std::size_t>(elements)));
  std::int64_t row = 0, column = 0;
  const std::int64_t rows = part(elements / columns, row), width = part(columns, column);
  Want want;
  want.copy.op = {dtype, dtype, size > 1 && random() % 4 == 0};
  want.copy.rank = 2;
  want.copy.axes[0] = {rows, columns * size, width * size};
  want.copy.axes[1] = {width, size, size};
  want.copy.src_offset = (row * columns + column) * size;
  want.bytes = static_cast<std::uint64_t>(rows * width * size);
  normalise(want.copy);
  return want;
}

inline ByteRange hull(const Want& want) {
  const auto begin = static_cast<std::uint64_t>(want.copy.src_offset);
  std::uint64_t end = begin + size_of(want.copy.op.from);
  for (const CopyAxis& axis : want.copy.used()) end += static_cast<std::uint64_t>((axis.extent - 1) * axis.src_stride);
  return {begin, end};
}

class ChunkSource {
 public:
  explicit ChunkSource(std::uint64_t seed) : random_(seed * 0x9e3779b97f4a7c15u + 1) {
    for (Frame& frame : frames_) frame = random_frame(random_);
  }

  // Memory of `chunk` is used again.
  void next(Chunk& chunk) {
    if (++given_ % kUses == 0) frames_[below(random_, frames_.size())] = random_frame(random_);
    const Frame& frame = frames_[below(random_, frames_.size())];
    chunk.encoded = frame.encoded;
    chunk.bytes = frame.bytes;
    chunk.mutated = random_() % 3 != 0;
    if (chunk.mutated) {
      damage(random_, chunk.encoded, frames_[below(random_, frames_.size())].encoded);
      if (random_() % 2 == 0) repair(frame.kind, chunk.encoded);
    }
    wrap(chunk, frame.kind);
    chunk.wants.clear();
    chunk.needed.clear();
    for (std::uint64_t count = random_() % 4 == 0 ? 2 : 1; count > 0; --count) {
      chunk.wants.push_back(random_want(random_, chunk.bytes));
      chunk.needed.push_back(hull(chunk.wants.back()));
    }
    merge_ranges(chunk.needed);
  }

 private:
  static constexpr std::size_t kFrames = 24;
  static constexpr std::uint64_t kUses = 24;  // of one frame, about

  // Checksums that are right, or now and then are not.
  void wrap(Chunk& chunk, Frame::Kind kind) {
    const unsigned checksums = random_() % 4 == 0 ? static_cast<unsigned>(random_()) : 0;
    chunk.codecs = &chain_of(kind, checksums);
    for (const CodecSpec& codec : chunk.codecs->codecs()) {
      if (codec.id != CodecId::crc32c) continue;
      const std::uint32_t sum = crc32c(chunk.encoded) + (random_() % 16 == 0 ? 1 : 0);
      std::byte stored[4];
      std::memcpy(stored, &sum, 4);
      chunk.encoded.insert(codec.checksum_at_start ? chunk.encoded.begin() : chunk.encoded.end(), stored, stored + 4);
    }
  }

  Random random_;
  std::array<Frame, kFrames> frames_;
  std::uint64_t given_ = 0;
};

}  // namespace damacy::stages
