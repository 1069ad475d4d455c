#include "damacy/codec/lz4.h"

#include <lz4.h>

#include <limits>

namespace damacy {

using detail::ByteSpan;
using detail::failed;
using detail::MutableByteSpan;

namespace {
constexpr std::uint64_t kSizeBytes = 4;
constexpr std::uint64_t kIntMax = std::numeric_limits<int>::max();
}  // namespace

DecodeResult decode_lz4_block(ByteSpan encoded, MutableByteSpan out) noexcept {
  if (encoded.size() > kIntMax) return failed(DecodeStatus::limit, "lz4: packed block", encoded.size(), kIntMax);
  if (out.size() > kIntMax) return failed(DecodeStatus::limit, "lz4: decoded block", out.size(), kIntMax);
  const int got =
      LZ4_decompress_safe(reinterpret_cast<const char*>(encoded.data()), reinterpret_cast<char*>(out.data()),
                          static_cast<int>(encoded.size()), static_cast<int>(out.size()));
  if (got < 0)
    return failed(DecodeStatus::frame,
                  "lz4: a block does not decode into the expected size; failed near packed byte (seen)",
                  static_cast<std::uint64_t>(-(static_cast<std::int64_t>(got) + 1)), out.size());
  if (static_cast<std::uint64_t>(got) != out.size())
    return failed(DecodeStatus::size, "lz4: decoded size", static_cast<std::uint64_t>(got), out.size());
  return {};
}

DecodeResult lz4_decoded_size(ByteSpan encoded, std::uint64_t& size) noexcept {
  if (encoded.size() < kSizeBytes)
    return failed(DecodeStatus::frame, "lz4: the size in front is cut off", encoded.size(), kSizeBytes);
  size = detail::read_le32(encoded.data());
  return {};
}

DecodeResult decode_lz4(ByteSpan encoded, MutableByteSpan out) noexcept {
  std::uint64_t size = 0;
  if (const DecodeResult result = lz4_decoded_size(encoded, size); !result.ok()) return result;
  if (size != out.size()) return failed(DecodeStatus::size, "lz4: size in front of the block", size, out.size());
  if (size == 0 && encoded.size() == kSizeBytes) return {};  // numcodecs writes no block at all for no bytes
  return decode_lz4_block(encoded.subspan(kSizeBytes), out);
}

}  // namespace damacy
