#include "damacy/codec/deflate.h"

#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <limits>

#include "damacy/codec/checksums.h"

namespace damacy {
namespace {

using detail::ByteSpan;
using detail::failed;
using detail::MutableByteSpan;

const unsigned char* unsigned_bytes(ByteSpan bytes) noexcept {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

std::uint32_t read_be32(const std::byte* bytes) noexcept {
  return __builtin_bswap32(detail::read_le32(bytes));
}

DecodeResult sized(std::uint64_t got, MutableByteSpan out, std::uint64_t* produced, const char* detail) noexcept {
  if (produced != nullptr)
    *produced = got;
  else if (got != out.size())
    return failed(DecodeStatus::size, detail, got, out.size());
  return {};
}

// Steps over the header of a gzip member, whose parts may be missing or of any length (RFC 1952).
class GzipHeader {
 public:
  explicit GzipHeader(ByteSpan encoded) noexcept : encoded_(encoded) {}

  DecodeResult read(std::uint64_t& size) noexcept {
    constexpr std::uint64_t kFixed = 10;
    if (encoded_.size() < kFixed)
      return failed(DecodeStatus::frame, "gzip: a member's header is cut off", encoded_.size(), kFixed);
    const auto magic = static_cast<unsigned>(detail::read_le(encoded_.data(), 2));
    if (magic != 0x8b1f) return failed(DecodeStatus::frame, "gzip: magic number", magic, 0x8b1f);
    const auto method = static_cast<unsigned>(encoded_[2]);
    if (method != 8) return failed(DecodeStatus::frame, "gzip: compression method", method, 8);
    const auto flags = static_cast<unsigned>(encoded_[3]);
    if ((flags & 0xe0) != 0) return failed(DecodeStatus::frame, "gzip: reserved flags", flags, flags & 0x1f);
    position_ = kFixed;
    bool present = true;
    if ((flags & 4) != 0) present = extra();
    if ((flags & 8) != 0) present = present && text();   // name
    if ((flags & 16) != 0) present = present && text();  // comment
    present = present && left() >= ((flags & 2) != 0 ? 2u : 0u);
    if (!present) return failed(DecodeStatus::frame, "gzip: a member's header is cut off", encoded_.size());
    if ((flags & 2) != 0)
      if (const DecodeResult result = checksum(); !result.ok()) return result;
    size = position_;
    return {};
  }

 private:
  std::uint64_t left() const noexcept { return encoded_.size() - position_; }

  bool extra() noexcept {
    if (left() < 2) return false;
    const std::uint64_t length = detail::read_le(encoded_.data() + position_, 2);
    position_ += 2;
    if (left() < length) return false;
    position_ += length;
    return true;
  }

  bool text() noexcept {
    const auto rest = encoded_.subspan(position_);
    const auto end = std::ranges::find(rest, std::byte{0});
    if (end == rest.end()) return false;
    position_ += static_cast<std::uint64_t>(end - rest.begin()) + 1;
    return true;
  }

  DecodeResult checksum() noexcept {
    const std::uint32_t computed = crc32(encoded_.first(position_)) & 0xffff;
    const auto stored = static_cast<std::uint32_t>(detail::read_le(encoded_.data() + position_, 2));
    position_ += 2;
    if (stored != computed) return failed(DecodeStatus::checksum, "gzip: header checksum", stored, computed);
    return {};
  }

  ByteSpan encoded_;
  std::uint64_t position_ = 0;
};

}  // namespace

InflateDecoder::InflateDecoder() : state_(std::make_unique<inflate_state>()) {
  isal_inflate_init(state_.get());
}
InflateDecoder::~InflateDecoder() = default;
InflateDecoder::InflateDecoder(InflateDecoder&&) noexcept = default;
InflateDecoder& InflateDecoder::operator=(InflateDecoder&&) noexcept = default;

// One deflate stream without wrapper.
DecodeResult InflateDecoder::inflate(ByteSpan encoded, MutableByteSpan out, Amounts& amounts) noexcept {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint32_t>::max();  // the library counts in 32 bits
  inflate_state& state = *state_;
  isal_inflate_reset(&state);
  state.crc_flag = ISAL_DEFLATE;
  state.next_in = const_cast<unsigned char*>(unsigned_bytes(encoded));  // only read
  state.avail_in = static_cast<std::uint32_t>(std::min<std::uint64_t>(encoded.size(), kMax));
  state.next_out = reinterpret_cast<unsigned char*>(out.data());
  state.avail_out = static_cast<std::uint32_t>(std::min<std::uint64_t>(out.size(), kMax));
  const int code = isal_inflate_stateless(&state);
  amounts.consumed = static_cast<std::uint64_t>(state.next_in - unsigned_bytes(encoded));
  amounts.produced = state.total_out;
  switch (code) {
    case ISAL_DECOMP_OK:
      return {};
    case ISAL_END_INPUT:
      return failed(DecodeStatus::frame, "deflate: data end early, after decoded bytes", state.total_out);
    case ISAL_OUT_OVERFLOW:
      return failed(DecodeStatus::size, "deflate: more bytes than expected", out.size() + 1, out.size());
    case ISAL_INVALID_LOOKBACK:
      return failed(DecodeStatus::frame, "deflate: distance reaches before the first byte");
    default:
      return failed(DecodeStatus::frame, "deflate: malformed block, after decoded bytes", state.total_out);
  }
}

DecodeResult InflateDecoder::gzip_member(ByteSpan encoded, MutableByteSpan out, Amounts& amounts) noexcept {
  constexpr std::uint64_t kTrailer = 8;
  std::uint64_t header = 0;
  if (const DecodeResult result = GzipHeader(encoded).read(header); !result.ok()) return result;
  if (const DecodeResult result = inflate(encoded.subspan(header), out, amounts); !result.ok()) return result;
  amounts.consumed += header;
  const ByteSpan trailer = encoded.subspan(amounts.consumed);
  if (trailer.size() < kTrailer)
    return failed(DecodeStatus::frame, "gzip: a member's checksum and length are cut off", trailer.size(), kTrailer);
  const std::uint32_t computed = crc32(out.first(amounts.produced));
  const std::uint32_t stored = detail::read_le32(trailer.data());
  if (stored != computed) return failed(DecodeStatus::checksum, "gzip: CRC-32", stored, computed);
  const std::uint32_t length = detail::read_le32(trailer.data() + 4);
  if (length != (amounts.produced & 0xffffffffu))
    return failed(DecodeStatus::checksum, "gzip: length of a member", length, amounts.produced & 0xffffffffu);
  amounts.consumed += kTrailer;
  return {};
}

DecodeResult InflateDecoder::decode_gzip(ByteSpan encoded, MutableByteSpan out, std::uint64_t* produced) noexcept {
  std::uint64_t consumed = 0;
  std::uint64_t got = 0;
  do {
    Amounts member;
    const DecodeResult result = gzip_member(encoded.subspan(consumed), out.subspan(got), member);
    if (!result.ok()) return result;
    consumed += member.consumed;
    got += member.produced;
  } while (consumed < encoded.size() && encoded[consumed] != std::byte{0});
  const ByteSpan padding = encoded.subspan(consumed);
  const auto stray = std::ranges::find_if(padding, [](std::byte byte) { return byte != std::byte{0}; });
  if (stray != padding.end())
    return failed(DecodeStatus::frame, "gzip: a byte that is not zero follows the last member",
                  static_cast<std::uint64_t>(*stray));
  return sized(got, out, produced, "gzip: decoded size");
}

DecodeResult InflateDecoder::decode_zlib(ByteSpan encoded, MutableByteSpan out, std::uint64_t* produced) noexcept {
  constexpr std::uint64_t kHeader = 2;
  constexpr std::uint64_t kTrailer = 4;
  if (encoded.size() < kHeader)
    return failed(DecodeStatus::frame, "zlib: the header is cut off", encoded.size(), kHeader);
  const auto method = static_cast<unsigned>(encoded[0]);
  const auto flags = static_cast<unsigned>(encoded[1]);
  if ((method & 0x0f) != 8) return failed(DecodeStatus::frame, "zlib: compression method", method & 0x0f, 8);
  if (method >> 4 > 7) return failed(DecodeStatus::frame, "zlib: window size code", method >> 4, 7);
  if ((method * 256 + flags) % 31 != 0)
    return failed(DecodeStatus::frame, "zlib: header check, modulo 31", (method * 256 + flags) % 31, 0);
  if ((flags & 0x20) != 0) return failed(DecodeStatus::dictionary, "zlib: preset dictionary");
  Amounts amounts;
  if (const DecodeResult result = inflate(encoded.subspan(kHeader), out, amounts); !result.ok()) return result;
  const ByteSpan trailer = encoded.subspan(kHeader + amounts.consumed);
  if (trailer.size() != kTrailer)
    return failed(DecodeStatus::frame, "zlib: bytes behind the data, the checksum's included", trailer.size(),
                  kTrailer);
  const std::uint32_t computed = adler32(out.first(amounts.produced));
  const std::uint32_t stored = read_be32(trailer.data());
  if (stored != computed) return failed(DecodeStatus::checksum, "zlib: Adler-32", stored, computed);
  return sized(amounts.produced, out, produced, "zlib: decoded size");
}

}  // namespace damacy
