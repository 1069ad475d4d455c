// A blosc1 writer for tests, fuzzing and benchmarks, with every freedom that the format leaves. Knows the container;
// who packs a stream is the caller's choice. Not part of the library.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <numeric>
#include <span>
#include <string_view>
#include <vector>

#include "damacy/codec/blosc.h"

namespace damacy::codec_test {

using Bytes = std::vector<std::byte>;

inline Bytes bytes_of(std::initializer_list<int> values) {
  Bytes bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

inline Bytes text_bytes(std::string_view text) {
  Bytes bytes(text.size());
  std::ranges::transform(text, bytes.begin(), [](char c) { return static_cast<std::byte>(c); });
  return bytes;
}

inline void append(Bytes& to, std::span<const std::byte> more) {
  to.insert(to.end(), more.begin(), more.end());
}

inline void append_le(Bytes& to, std::uint64_t value, unsigned count) {
  for (unsigned i = 0; i < count; ++i) to.push_back(static_cast<std::byte>(value >> (8 * i)));
}

inline Bytes joined(std::initializer_list<Bytes> parts) {
  Bytes all;
  for (const Bytes& part : parts) append(all, part);
  return all;
}

using StreamPacker = std::function<Bytes(std::span<const std::byte>)>;

struct BloscWriter {
  unsigned typesize = 1;
  std::uint32_t blocksize = 1024;
  BloscCodec codec = BloscCodec::lz4;
  unsigned filter_flags = 0;  // 1 bytes, 4 bits
  bool split = true;
  bool all_raw = false;
  std::vector<std::uint32_t> write_order = {};  // of the blocks; empty: as they come
  bool share_equal_blocks = false;              // blocks with equal contents get one start
  std::uint32_t gap = 0;                        // dead bytes before each block
};

inline Bytes shuffled_bytes(const Bytes& raw, std::size_t typesize) {
  const std::size_t m = raw.size() / typesize;
  Bytes out = raw;
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t k = 0; k < typesize; ++k) out[k * m + i] = raw[i * typesize + k];
  return out;
}

inline Bytes shuffled_bits(const Bytes& raw, std::size_t typesize) {
  const std::size_t m = raw.size() / typesize;
  if (m % 8 != 0 || raw.size() < typesize) return raw;
  Bytes out = raw;
  std::fill(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(m * typesize), std::byte{0});
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t k = 0; k < typesize; ++k)
      for (std::size_t b = 0; b < 8; ++b) {
        const auto bit = (static_cast<unsigned>(raw[i * typesize + k]) >> b) & 1u;
        out[(k * 8 + b) * (m / 8) + i / 8] |= static_cast<std::byte>(bit << (i % 8));
      }
  return out;
}

inline Bytes filtered(const BloscWriter& writer, const Bytes& block) {
  if ((writer.filter_flags & 1) != 0 && writer.typesize > 1) return shuffled_bytes(block, writer.typesize);
  return (writer.filter_flags & 4) != 0 ? shuffled_bits(block, writer.typesize) : block;
}

inline Bytes blosc_block(const BloscWriter& writer, const Bytes& raw, const StreamPacker& pack) {
  const bool split =
      writer.split && writer.typesize <= 16 && raw.size() / writer.typesize >= 128 && raw.size() == writer.blocksize;
  const std::size_t size = raw.size() / (split ? writer.typesize : 1);
  const Bytes block = filtered(writer, raw);
  Bytes bytes;
  for (std::size_t at = 0; at < block.size(); at += size) {
    const auto part = std::span(block).subspan(at, size);
    Bytes packed = pack(part);
    if (writer.all_raw || packed.size() >= size) packed.assign(part.begin(), part.end());
    append_le(bytes, packed.size(), 4);
    append(bytes, packed);
  }
  return bytes;
}

inline Bytes blosc_header(unsigned flags, unsigned typesize, std::uint64_t nbytes, std::uint64_t blocksize,
                          std::uint64_t cbytes) {
  Bytes bytes = bytes_of({2, 1, static_cast<int>(flags), static_cast<int>(typesize)});
  append_le(bytes, nbytes, 4);
  append_le(bytes, blocksize, 4);
  append_le(bytes, cbytes, 4);
  return bytes;
}

inline Bytes blosc_memcpyed(const Bytes& raw, unsigned flags, unsigned typesize) {
  return joined({blosc_header(flags | 2, typesize, raw.size(), raw.size(), raw.size() + 16), raw});
}

inline Bytes blosc_packed(const Bytes& raw, const BloscWriter& writer, const StreamPacker& pack) {
  const std::size_t count = (raw.size() + writer.blocksize - 1) / writer.blocksize;
  std::vector<std::uint32_t> order = writer.write_order;
  if (order.empty()) {
    order.resize(count);
    std::iota(order.begin(), order.end(), 0u);
  }
  std::vector<Bytes> blocks(count);
  std::vector<std::size_t> starts(count, 0);
  Bytes body;
  for (const std::uint32_t index : order) {
    const auto part = std::span(raw)
                          .subspan(index * writer.blocksize)
                          .first(std::min<std::size_t>(writer.blocksize, raw.size() - index * writer.blocksize));
    blocks[index] = blosc_block(writer, {part.begin(), part.end()}, pack);
    for (std::size_t other = 0; other < count && writer.share_equal_blocks; ++other)
      if (starts[other] != 0 && blocks[other] == blocks[index]) starts[index] = starts[other];
    if (starts[index] != 0) continue;
    body.resize(body.size() + writer.gap, std::byte{0xdd});
    starts[index] = 16 + 4 * count + body.size();
    append(body, blocks[index]);
  }
  const unsigned flags = writer.filter_flags | (writer.split ? 0u : 0x10u) | static_cast<unsigned>(writer.codec) << 5;
  Bytes bytes = blosc_header(flags, writer.typesize, raw.size(), writer.blocksize, 16 + 4 * count + body.size());
  for (const std::size_t start : starts) append_le(bytes, start, 4);
  append(bytes, body);
  return bytes;
}

}  // namespace damacy::codec_test
