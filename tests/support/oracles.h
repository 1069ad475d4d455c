// Decoders for tests and fuzz targets, written from the formats' rules, to be read and not to be fast: empty if
// anything is wrong. Not part of the library.
#pragma once

#include <zstd.h>

#include "support/blosc_codecs.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace damacy::codec_test {

using Maybe = std::optional<std::vector<std::byte>>;

// Everything libzstd makes of the input in one call, if that is `size` bytes.
inline Maybe libzstd_decoded(std::span<const std::byte> encoded, std::size_t size) {
  std::vector<std::byte> out(size);
  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  thread_local const std::unique_ptr<ZSTD_DCtx, Free> context(ZSTD_createDCtx());
  const std::size_t got = ZSTD_decompressDCtx(context.get(), out.data(), size, encoded.data(), encoded.size());
  if (ZSTD_isError(got) || got != size) return std::nullopt;
  return out;
}

// One raw LZ4 block.
inline Maybe naive_lz4(std::span<const std::byte> in, std::size_t size) {
  std::vector<std::byte> out;
  std::size_t at = 0;
  const auto length = [&](unsigned nibble) -> std::optional<std::size_t> {
    std::size_t total = nibble;
    for (unsigned byte = 255; nibble == 15 && byte == 255; total += byte) {
      if (at >= in.size()) return std::nullopt;
      byte = static_cast<unsigned>(in[at++]);
    }
    return total;
  };
  while (at < in.size()) {
    const auto token = static_cast<unsigned>(in[at++]);
    const auto literals = length(token >> 4);
    if (!literals || *literals > in.size() - at || *literals > size - out.size()) return std::nullopt;
    out.insert(out.end(), in.begin() + static_cast<std::ptrdiff_t>(at),
               in.begin() + static_cast<std::ptrdiff_t>(at + *literals));
    at += *literals;
    if (at == in.size()) return out.size() == size ? Maybe(out) : std::nullopt;
    if (in.size() - at < 2) return std::nullopt;
    const std::size_t offset = static_cast<std::size_t>(in[at]) | static_cast<std::size_t>(in[at + 1]) << 8;
    at += 2;
    const auto match = length(token & 15);
    if (!match || offset == 0 || offset > out.size() || *match + 4 > size - out.size()) return std::nullopt;
    for (std::size_t i = 0; i < *match + 4; ++i) out.push_back(out[out.size() - offset]);
  }
  return std::nullopt;
}

// A blosc1 container. `inflate` decodes a zlib stream of a known size.
class NaiveBlosc {
 public:
  using Inflate = std::function<Maybe(std::span<const std::byte>, std::size_t)>;

  NaiveBlosc(std::span<const std::byte> in, std::size_t size, Inflate inflate)
      : in_(in), size_(size), inflate_(std::move(inflate)) {}

  Maybe decoded() {
    if (in_.size() < 16 || byte(0) != 2 || byte(1) != 1 || (byte(2) & 8) != 0 || byte(3) == 0 || byte(2) >> 5 > 4)
      return std::nullopt;
    const std::size_t blocksize = number(8);
    if (number(4) != size_ || number(12) != in_.size() || blocksize < 1) return std::nullopt;
    if (blocksize > std::max<std::size_t>(size_, 1)) return std::nullopt;
    if ((byte(2) & 2) != 0) return in_.size() == size_ + 16 ? Maybe({in_.begin() + 16, in_.end()}) : std::nullopt;
    if (size_ == 0) return in_.size() == 16 ? Maybe(std::vector<std::byte>{}) : std::nullopt;
    const std::size_t blocks = (size_ + blocksize - 1) / blocksize;
    if (16 + 4 * blocks > in_.size()) return std::nullopt;
    std::vector<std::byte> out;
    for (std::size_t i = 0; i < blocks; ++i) {
      const std::size_t start = number(16 + 4 * i);
      if (start < 16 + 4 * blocks || start + 4 > in_.size()) return std::nullopt;
      const Maybe block = block_at(start, std::min(blocksize, size_ - out.size()), blocksize);
      if (!block) return std::nullopt;
      out.insert(out.end(), block->begin(), block->end());
    }
    return out;
  }

 private:
  unsigned byte(std::size_t at) const { return static_cast<unsigned>(in_[at]); }
  std::size_t number(std::size_t at) const {
    return byte(at) | byte(at + 1) << 8 | byte(at + 2) << 16 | static_cast<std::size_t>(byte(at + 3)) << 24;
  }

  Maybe stream(std::span<const std::byte> packed, std::size_t size) const {
    if (packed.size() == size) return std::vector<std::byte>(packed.begin(), packed.end());
    switch (byte(2) >> 5) {
      case 0:
        return NaiveBytes(packed, size).blosclz();
      case 1:
        return naive_lz4(packed, size);
      case 2:
        return NaiveBytes(packed, size).snappy();
      case 3:
        return inflate_(packed, size);
      case 4:
        return libzstd_decoded(packed, size);
      default:
        return std::nullopt;
    }
  }

  Maybe block_at(std::size_t at, std::size_t size, std::size_t blocksize) const {
    const std::size_t typesize = byte(3);
    const bool split = (byte(2) & 0x10) == 0 && typesize <= 16 && size / typesize >= 128 && size == blocksize;
    const std::size_t splits = split ? typesize : 1;
    if (size % splits != 0) return std::nullopt;
    std::vector<std::byte> filtered;
    for (std::size_t i = 0; i < splits; ++i) {
      if (in_.size() - at < 4) return std::nullopt;
      const std::size_t length = number(at);
      at += 4;
      if (length < 1 || length > size / splits || length > in_.size() - at) return std::nullopt;
      const Maybe part = stream(in_.subspan(at, length), size / splits);
      if (!part) return std::nullopt;
      filtered.insert(filtered.end(), part->begin(), part->end());
      at += length;
    }
    return unfiltered(filtered);
  }

  std::vector<std::byte> unfiltered(const std::vector<std::byte>& in) const {
    const std::size_t typesize = byte(3);
    const std::size_t m = in.size() / typesize;
    std::vector<std::byte> out = in;
    const bool bytes = (byte(2) & 1) != 0 && typesize > 1;
    const bool bits = !bytes && (byte(2) & 4) != 0 && m % 8 == 0;
    for (std::size_t i = 0; i < m && (bytes || bits); ++i)
      for (std::size_t k = 0; k < typesize; ++k) {
        unsigned value = bytes ? static_cast<unsigned>(in[k * m + i]) : 0;
        for (std::size_t b = 0; b < 8 && bits; ++b)
          value |= (static_cast<unsigned>(in[(k * 8 + b) * (m / 8) + i / 8]) >> (i % 8) & 1u) << b;
        out[i * typesize + k] = static_cast<std::byte>(value);
      }
    return out;
  }

  std::span<const std::byte> in_;
  std::size_t size_;
  Inflate inflate_;
};

}  // namespace damacy::codec_test
