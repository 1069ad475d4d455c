// Random contents of many kinds and frames of them, made by the reference libraries, for tests, fuzzing and benchmarks.
// Not part of the library.
#pragma once

#include <lz4.h>
#include <lz4hc.h>
#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace damacy::gpu::testing {

using Bytes = std::vector<std::byte>;
using Random = std::mt19937_64;

inline std::size_t below(Random& random, std::size_t limit) {
  return limit == 0 ? 0 : random() % limit;
}

inline std::byte byte_of(std::uint64_t value) {
  return static_cast<std::byte>(value & 255);
}

// What zarr's byte shuffle does to 16-bit elements.
inline Bytes shuffled(const Bytes& in) {
  Bytes out(in.size());
  const std::size_t half = in.size() / 2;
  for (std::size_t i = 0; i < half; ++i) {
    out[i] = in[2 * i];
    out[half + i] = in[2 * i + 1];
  }
  if (in.size() % 2 != 0) out.back() = in.back();
  return out;
}

// Half zeros, half uniform, as 16-bit elements.
inline Bytes half_zeros(Random& random, std::size_t size) {
  Bytes out(size);
  for (std::size_t i = 0; i + 1 < size; i += 2) {
    const std::uint64_t value = random();
    if ((value & 0x10000) == 0) continue;
    out[i] = byte_of(value);
    out[i + 1] = byte_of(value >> 8);
  }
  return out;
}

// A camera's image: a dark level, noise, and bright smooth spots; 16-bit elements.
inline Bytes microscopy(Random& random, std::size_t size) {
  Bytes out(size);
  std::normal_distribution<float> noise(0.0f, 2.2f);
  float level = 0, target = 0;
  for (std::size_t i = 0; i + 1 < size; i += 2) {
    if (random() % 97 == 0) target = random() % 6 == 0 ? static_cast<float>(random() % 300) : 0.0f;
    level += (target - level) * 0.06f;
    const float value = 106.0f + level + noise(random) * (1.8f + std::sqrt(level) * 0.6f);
    const auto element = static_cast<std::uint16_t>(value < 0 ? 0 : value + 0.5f);
    out[i] = byte_of(element);
    out[i + 1] = byte_of(element >> 8);
  }
  return out;
}

inline Bytes runs(Random& random, std::size_t size) {
  Bytes out(size);
  for (std::size_t i = 0; i < size;) {
    const std::byte value = byte_of(random());
    for (std::size_t left = 1 + below(random, 3000); left != 0 && i < size; --left) out[i++] = value;
  }
  return out;
}

inline Bytes text_like(Random& random, std::size_t size) {
  static constexpr char kWords[] = "the quick brown fox jumps over ";
  Bytes out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>(kWords[(i * i / 7 + random() % 3) % 31]);
  return out;
}

inline Bytes near_repeats(Random& random, std::size_t size) {
  Bytes out(size);
  for (std::size_t i = 0; i < size; ++i)
    out[i] = i > 9 && random() % 9 != 0 ? out[i - 1 - below(random, 9)] : byte_of(random());
  return out;
}

inline Bytes skewed(Random& random, std::size_t size) {
  Bytes out(size);
  for (std::byte& byte : out) byte = byte_of(static_cast<std::uint64_t>(std::countr_zero(random() | 1ull << 40)));
  return out;
}

inline Bytes few_values(Random& random, std::size_t size) {
  Bytes out(size);
  const std::size_t values = 1 + below(random, 9);
  for (std::byte& byte : out) byte = byte_of(below(random, values));
  return out;
}

inline Bytes noise(Random& random, std::size_t size) {
  Bytes out(size);
  for (std::byte& byte : out) byte = byte_of(random() >> 24);
  return out;
}

inline Bytes random_content(Random& random, std::size_t size) {
  switch (random() % 11) {
    case 0:
      return microscopy(random, size);
    case 1:
      return shuffled(microscopy(random, size));
    case 2:
      return half_zeros(random, size);
    case 3:
      return shuffled(half_zeros(random, size));
    case 4:
      return runs(random, size);
    case 5:
      return text_like(random, size);
    case 6:
      return near_repeats(random, size);
    case 7:
      return skewed(random, size);
    case 8:
      return few_values(random, size);
    case 9:
      return noise(random, size);
    default:
      return Bytes(size, byte_of(random()));
  }
}

struct ZstdWriter {
  int level = 3;
  int window_log = 0;  // 0: libzstd's choice
  bool checksum = false;
  bool content_size = true;

  static ZstdWriter random(Random& random, std::size_t size) {
    ZstdWriter writer;
    writer.level = static_cast<int>(random() % 28) - 5;
    if (size > 4096 && writer.level > 12) writer.level = 12;
    if (random() % 4 == 0) writer.window_log = static_cast<int>(10 + random() % 10);
    writer.checksum = (random() & 1) != 0;
    writer.content_size = (random() & 1) != 0;
    return writer;
  }

  void append(std::span<const std::byte> content, Bytes& out) const {
    // Kept: making one costs more than a small frame does.
    thread_local const std::unique_ptr<ZSTD_CCtx, std::size_t (*)(ZSTD_CCtx*)> context(ZSTD_createCCtx(),
                                                                                       ZSTD_freeCCtx);
    ZSTD_CCtx_reset(context.get(), ZSTD_reset_session_and_parameters);
    ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, level);
    ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, checksum ? 1 : 0);
    ZSTD_CCtx_setParameter(context.get(), ZSTD_c_contentSizeFlag, content_size ? 1 : 0);
    if (window_log != 0) ZSTD_CCtx_setParameter(context.get(), ZSTD_c_windowLog, window_log);
    const std::size_t begin = out.size();
    out.resize(begin + ZSTD_compressBound(content.size()));
    out.resize(begin +
               ZSTD_compress2(context.get(), out.data() + begin, out.size() - begin, content.data(), content.size()));
  }
};

inline void append_skippable(Random& random, Bytes& out) {
  const std::size_t size = below(random, 20);
  const std::uint8_t header[8] = {static_cast<std::uint8_t>(0x50 + random() % 16), 0x2a, 0x4d, 0x18,
                                  static_cast<std::uint8_t>(size)};
  for (const std::uint8_t byte : header) out.push_back(std::byte{byte});
  for (std::size_t i = 0; i < size; ++i) out.push_back(byte_of(random()));
}

// One to three zstd frames, with skippable ones between.
inline Bytes random_zstd(Random& random, std::span<const std::byte> content) {
  Bytes out;
  for (std::size_t parts = random() % 3 == 0 ? 1 + random() % 3 : 1; parts != 0; --parts) {
    const std::size_t take = parts == 1 ? content.size() : below(random, content.size() + 1);
    ZstdWriter::random(random, take).append(content.first(take), out);
    content = content.subspan(take);
    if (random() % 8 == 0) append_skippable(random, out);
  }
  return out;
}

inline Bytes lz4_block(std::span<const std::byte> content, int level) {
  const int size = static_cast<int>(content.size());
  Bytes out(static_cast<std::size_t>(LZ4_compressBound(size)));
  const char* from = reinterpret_cast<const char*>(content.data());
  char* to = reinterpret_cast<char*>(out.data());
  const int room = static_cast<int>(out.size());
  const int got =
      level < 3 ? LZ4_compress_fast(from, to, size, room, 1 - level) : LZ4_compress_HC(from, to, size, room, level);
  out.resize(static_cast<std::size_t>(got));
  return out;
}

inline Bytes random_lz4(Random& random, std::span<const std::byte> content) {
  return lz4_block(content, static_cast<int>(random() % 18) - 5);
}

// Bit flips, replaced bytes, moved pieces, and a cut end now and then.
inline void mutate(Random& random, Bytes& bytes) {
  if (bytes.empty()) return;
  for (std::size_t left = 1 + random() % 4; left != 0; --left) {
    const std::size_t at =
        random() % 3 == 0 ? below(random, std::min<std::size_t>(bytes.size(), 40)) : below(random, bytes.size());
    if (random() % 3 != 0)
      bytes[at] ^= byte_of(1u << (random() % 8));
    else
      bytes[at] =
          random() % 2 == 0 ? byte_of(random()) : std::byte{static_cast<unsigned char>(random() % 2 == 0 ? 255 : 0)};
  }
  if (random() % 8 == 0) bytes.resize(below(random, bytes.size()));
  if (random() % 16 == 0 && bytes.size() > 8) {
    const std::size_t count = 1 + below(random, bytes.size() / 2);
    const std::size_t from = below(random, bytes.size() - count + 1), to = below(random, bytes.size() - count + 1);
    std::memmove(bytes.data() + to, bytes.data() + from, count);
  }
}

}  // namespace damacy::gpu::testing
