// Encoders for tests and fuzz targets: hand-made zstd frames, blosc chunks, and short ways to the reference libraries.
// Not part of the library.
#pragma once

#include <isa-l/igzip_lib.h>
#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "damacy/codec/chain.h"
#include "support/blosc_codecs.h"
#include "support/blosc_writer.h"

namespace damacy::codec_test {

// Contents that compress a little: a slow ramp of 16-bit values with some noise in the low byte.
inline Bytes image(std::size_t size, unsigned seed = 1) {
  std::mt19937 random(seed);
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t value = 1000 + i / 16 + random() % 4;
    bytes[i] = static_cast<std::byte>(i % 2 == 0 ? value : value >> 8);
  }
  return bytes;
}

inline Bytes noise(std::size_t size, unsigned seed = 1) {
  std::mt19937 random(seed);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// --- reference libraries ---

// As new, whatever it was used for; making one costs more than a small frame does.
inline ZSTD_CCtx* zstd_context() {
  struct Free {
    void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  };
  thread_local const std::unique_ptr<ZSTD_CCtx, Free> context(ZSTD_createCCtx());
  ZSTD_CCtx_reset(context.get(), ZSTD_reset_session_and_parameters);
  return context.get();
}

inline Bytes zstd_packed(std::span<const std::byte> raw, int level = 3, bool checksum = false) {
  ZSTD_CCtx* context = zstd_context();
  ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level);
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, checksum ? 1 : 0);
  Bytes packed(ZSTD_compressBound(raw.size()));
  packed.resize(ZSTD_compress2(context, packed.data(), packed.size(), raw.data(), raw.size()));
  return packed;
}

// As a writer that streams: no content size, a window larger than the content, blocks cut by flushes.
inline Bytes zstd_streamed(std::span<const std::byte> raw, int window_log, bool checksum, std::size_t flush_every) {
  ZSTD_CCtx* context = zstd_context();
  ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, checksum ? 1 : 0);
  Bytes packed(ZSTD_compressBound(raw.size()) + 64 + 8 * (raw.size() / flush_every));
  ZSTD_outBuffer out{packed.data(), packed.size(), 0};
  for (std::size_t at = 0; at < raw.size(); at += flush_every) {
    ZSTD_inBuffer in{raw.data() + at, std::min(flush_every, raw.size() - at), 0};
    ZSTD_compressStream2(context, &out, &in, ZSTD_e_flush);
  }
  ZSTD_inBuffer none{nullptr, 0, 0};
  ZSTD_compressStream2(context, &out, &none, ZSTD_e_end);
  packed.resize(out.pos);
  return packed;
}

inline Bytes lz4_packed(std::span<const std::byte> raw) {
  Bytes packed(static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(raw.size()))));
  const int size =
      LZ4_compress_default(reinterpret_cast<const char*>(raw.data()), reinterpret_cast<char*>(packed.data()),
                           static_cast<int>(raw.size()), static_cast<int>(packed.size()));
  packed.resize(static_cast<std::size_t>(size));
  return packed;
}

// `wrapper`: IGZIP_GZIP or IGZIP_ZLIB.
inline Bytes deflated(std::span<const std::byte> raw, std::uint16_t wrapper) {
  isal_zstream stream;
  isal_deflate_stateless_init(&stream);
  Bytes packed(raw.size() + raw.size() / 8 + 512);
  stream.gzip_flag = wrapper;
  stream.flush = NO_FLUSH;
  stream.end_of_stream = 1;
  stream.next_in = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(raw.data()));
  stream.avail_in = static_cast<std::uint32_t>(raw.size());
  stream.next_out = reinterpret_cast<unsigned char*>(packed.data());
  stream.avail_out = static_cast<std::uint32_t>(packed.size());
  if (isal_deflate_stateless(&stream) != COMP_OK) throw std::runtime_error("isal_deflate_stateless");
  packed.resize(stream.total_out);
  return packed;
}

inline Bytes with_size_in_front(std::uint32_t size, std::span<const std::byte> block) {
  Bytes bytes(4 + block.size());
  for (unsigned i = 0; i < 4; ++i) bytes[i] = static_cast<std::byte>(size >> (8 * i));
  std::ranges::copy(block, bytes.begin() + 4);
  return bytes;
}

inline Bytes with_crc32c(Bytes bytes, bool at_start = false) {
  Bytes crc;
  append_le(crc, crc32c(bytes), 4);
  return at_start ? joined({crc, bytes}) : joined({bytes, crc});
}

// --- hand-made zstd ---

struct ZstdHeader {
  std::uint64_t content_size = 0;
  unsigned size_bytes = 0;  // 0, 1, 2, 4 or 8; 1 makes a single segment
  int window_byte = 0x38;   // 128 KiB; -1 makes a single segment
  bool checksum = false;
  unsigned dictionary_bytes = 0;
  std::uint32_t dictionary = 0;
  unsigned extra_bits = 0;  // into the descriptor
};

inline Bytes zstd_header(const ZstdHeader& header) {
  const bool single = header.window_byte < 0 || header.size_bytes == 1;
  const unsigned size_flag = header.size_bytes == 8 ? 3 : header.size_bytes == 4 ? 2 : header.size_bytes == 2 ? 1 : 0;
  const unsigned dictionary_flag = header.dictionary_bytes == 4 ? 3 : header.dictionary_bytes;
  Bytes bytes;
  append_le(bytes, 0xfd2fb528, 4);
  append_le(bytes,
            size_flag << 6 | (single ? 0x20u : 0u) | (header.checksum ? 4u : 0u) | dictionary_flag | header.extra_bits,
            1);
  if (!single) append_le(bytes, static_cast<unsigned>(header.window_byte), 1);
  append_le(bytes, header.dictionary, header.dictionary_bytes);
  append_le(bytes, header.size_bytes == 2 ? header.content_size - 256 : header.content_size, header.size_bytes);
  return bytes;
}

// `type`: 0 raw, 1 rle, 2 compressed, 3 reserved. `size` is what the header says, `data` what follows.
inline Bytes zstd_block(unsigned type, std::uint32_t size, std::span<const std::byte> data, bool last) {
  Bytes bytes;
  append_le(bytes, size << 3 | type << 1 | (last ? 1u : 0u), 3);
  append(bytes, data);
  return bytes;
}

inline Bytes zstd_raw_block(std::span<const std::byte> data, bool last) {
  return zstd_block(0, static_cast<std::uint32_t>(data.size()), data, last);
}

inline Bytes zstd_rle_block(int byte, std::uint32_t count, bool last) {
  return zstd_block(1, count, bytes_of({byte}), last);
}

inline Bytes zstd_skippable(unsigned nibble, std::span<const std::byte> data) {
  Bytes bytes;
  append_le(bytes, 0x184d2a50 + nibble, 4);
  append_le(bytes, data.size(), 4);
  append(bytes, data);
  return bytes;
}

// Low 32 bits of XXH64, which the reference library puts at a frame's end.
inline Bytes zstd_checksum_of(std::span<const std::byte> raw) {
  const Bytes packed = zstd_packed(raw, 1, /*checksum=*/true);
  return {packed.end() - 4, packed.end()};
}

// --- blosc ---

inline Bytes packed_stream(BloscCodec codec, std::span<const std::byte> raw) {
  switch (codec) {
    case BloscCodec::zstd:
      return zstd_packed(raw);
    case BloscCodec::zlib:
      return deflated(raw, IGZIP_ZLIB);
    case BloscCodec::blosclz:
      return blosclz_packed(raw);
    case BloscCodec::snappy:
      return snappy_packed(raw);
    default:
      return lz4_packed(raw);
  }
}

inline Bytes blosc_packed(const Bytes& raw, const BloscWriter& writer) {
  return blosc_packed(raw, writer, [&](std::span<const std::byte> part) { return packed_stream(writer.codec, part); });
}

}  // namespace damacy::codec_test
