#include "damacy/codec/lz4.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace damacy {

using detail::ByteSpan;
using detail::failed;
using detail::MutableByteSpan;

namespace {

constexpr std::uint64_t kSizeBytes = 4;
constexpr std::size_t kMinMatch = 4;
constexpr std::size_t kLongLength = 15;  // a length that goes on in the following bytes
constexpr std::size_t kStep = 16;
// How far from both ends whole sequences are decoded by steps that may run past what they mean to write. What they
// leave there is overwritten by what follows, since the output is filled to its last byte or the block is refused.
constexpr std::size_t kMargin = 64;

struct Input {
  const std::byte* at;
  const std::byte* end;
  std::size_t left() const noexcept { return static_cast<std::size_t>(end - at); }
};

struct Output {
  std::byte* begin;
  std::byte* at;
  std::byte* end;
  std::size_t left() const noexcept { return static_cast<std::size_t>(end - at); }
  std::size_t produced() const noexcept { return static_cast<std::size_t>(at - begin); }
};

template <std::size_t kBytes>
void copy_step(std::byte* to, const std::byte* from) noexcept {
  std::byte block[kBytes];
  std::memcpy(block, from, kBytes);
  std::memcpy(to, block, kBytes);
}

std::size_t load_offset(const std::byte* from) noexcept {
  if constexpr (std::endian::native != std::endian::little) return detail::read_le(from, 2);
  std::uint16_t offset = 0;
  std::memcpy(&offset, from, sizeof offset);
  return offset;
}

// Until `stop` and up to 2 * kStep - 1 bytes beyond; `from` lies kStep bytes or more before `to`, or elsewhere.
void copy_steps(std::byte* to, const std::byte* from, const std::byte* stop) noexcept {
  do {
    copy_step<kStep>(to, from);
    copy_step<kStep>(to + kStep, from + kStep);
    to += 2 * kStep;
    from += 2 * kStep;
  } while (to < stop);
}

// The last `period` bytes before `to` again and again, period 1, 2, 4 or 8.
void repeat_word(std::byte* to, std::size_t period, const std::byte* stop) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, to - period, period == 8 ? 8 : period == 4 ? 4 : period == 2 ? 2 : 1);
  if (period == 1) word *= 0x0101010101010101;
  if (period == 2) word *= 0x0001000100010001;
  if (period == 4) word *= 0x0000000100000001;
  do {
    for (std::size_t i = 0; i < 2 * kStep; i += sizeof word) std::memcpy(to + i, &word, sizeof word);
    to += 2 * kStep;
  } while (to < stop);
}

// As copy_steps, of a match: the bytes `offset` before, which may be the very bytes written here.
void copy_match(std::byte* to, std::size_t offset, const std::byte* stop) noexcept {
  if (offset >= kStep) return copy_steps(to, to - offset, stop);
  if (std::has_single_bit(offset)) return repeat_word(to, offset, stop);
  // A period repeated is a period: the distance doubles until a step lies behind.
  for (; offset < kStep; offset *= 2) {
    copy_step<kStep>(to, to - offset);
    to += offset;
  }
  if (to < stop) copy_steps(to, to - offset, stop);
}

// Adds bytes until one is not 255; false if the input ends before. Each adds at most 255, so 64 bits cannot wrap.
bool add_length_bytes(const std::byte*& at, const std::byte* end, std::size_t& length) noexcept {
  unsigned byte = 255;
  while (byte == 255) {
    if (at == end) return false;
    byte = static_cast<unsigned>(*at++);
    length += byte;
  }
  return true;
}

// Sequences far from both ends: nearly all. Stops, with `in` at a token, before one that comes near them or is wrong.
void decode_far_from_the_ends(Input& in_out, Output& out_out) noexcept {
  Input in = in_out;
  Output out = out_out;
  while (in.left() >= kMargin && out.left() >= kMargin) {
    const std::byte* from = in.at + 1;
    const auto token = static_cast<std::size_t>(*in.at);
    std::size_t literals = token >> 4;
    std::byte* to = out.at;
    if (literals != kLongLength) {
      copy_step<kStep>(to, from);
    } else {
      if (!add_length_bytes(from, in.end, literals)) break;
      if (literals + kMargin > static_cast<std::size_t>(in.end - from) || literals + kMargin > out.left()) break;
      copy_steps(to, from, to + literals);
    }
    from += literals;
    to += literals;
    const std::size_t offset = load_offset(from);
    from += 2;
    if (offset - 1 >= static_cast<std::size_t>(to - out.begin)) break;  // zero, too
    std::size_t length = token & 15;
    if (length != kLongLength && offset >= 8) {  // at most 18 bytes
      copy_step<8>(to, to - offset);
      copy_step<8>(to + 8, to + 8 - offset);
      copy_step<2>(to + 16, to + 16 - offset);
    } else {
      if (length == kLongLength && !add_length_bytes(from, in.end, length)) break;
      if (length + kMinMatch + kMargin > static_cast<std::size_t>(out.end - to)) break;
      copy_match(to, offset, to + length + kMinMatch);
    }
    in.at = from;
    out.at = to + length + kMinMatch;
  }
  in_out = in;
  out_out = out;
}

DecodeResult decode_literals(Input& in, Output& out, std::size_t length) noexcept {
  if (length == kLongLength && !add_length_bytes(in.at, in.end, length))
    return failed(DecodeStatus::frame, "lz4: a length is cut off; decoded bytes", out.produced());
  if (length > in.left()) return failed(DecodeStatus::frame, "lz4: literals are cut off", in.left(), length);
  if (length > out.left())
    return failed(DecodeStatus::size, "lz4: literals for more bytes than are left", length, out.left());
  if (length != 0) std::memcpy(out.at, in.at, length);
  in.at += length;
  out.at += length;
  return {};
}

DecodeResult decode_match(Input& in, Output& out, std::size_t length) noexcept {
  if (in.left() < 2) return failed(DecodeStatus::frame, "lz4: an offset is cut off", in.left(), 2);
  const std::size_t offset = load_offset(in.at);
  in.at += 2;
  if (length == kLongLength && !add_length_bytes(in.at, in.end, length))
    return failed(DecodeStatus::frame, "lz4: a length is cut off; decoded bytes", out.produced());
  length += kMinMatch;
  if (offset == 0 || offset > out.produced())
    return failed(DecodeStatus::frame, "lz4: an offset is zero or reaches before the first byte", offset,
                  out.produced());
  if (length > out.left())
    return failed(DecodeStatus::size, "lz4: a match for more bytes than are left", length, out.left());
  std::byte* const stop = out.at + length;
  if (out.left() >= kMargin) {  // the last match of a block is often its longest
    std::byte* const fast_stop = std::min(stop, out.end - kMargin + 1);
    copy_match(out.at, offset, fast_stop);
    out.at = fast_stop;
  }
  for (; out.at != stop; ++out.at) *out.at = out.at[-static_cast<std::ptrdiff_t>(offset)];
  return {};
}

}  // namespace

// Not liblz4: its LZ4_decompress_safe takes an offset of zero and makes up the bytes.
DecodeResult decode_lz4_block(ByteSpan encoded, MutableByteSpan decoded) noexcept {
  Input in{encoded.data(), encoded.data() + encoded.size()};
  Output out{decoded.data(), decoded.data(), decoded.data() + decoded.size()};
  while (true) {
    decode_far_from_the_ends(in, out);
    if (in.left() == 0)
      return failed(DecodeStatus::frame, "lz4: the block does not end in literals; decoded bytes", out.produced());
    const auto token = static_cast<std::size_t>(*in.at++);
    if (const DecodeResult result = decode_literals(in, out, token >> 4); !result.ok()) return result;
    if (in.left() == 0) break;
    if (const DecodeResult result = decode_match(in, out, token & 15); !result.ok()) return result;
  }
  if (out.left() != 0) return failed(DecodeStatus::size, "lz4: decoded size", out.produced(), decoded.size());
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
