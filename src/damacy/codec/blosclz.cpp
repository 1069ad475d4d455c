#include "damacy/codec/blosclz.h"

#include <cstring>

#include "damacy/codec/copy_match.h"

namespace damacy {

using detail::ByteSpan;
using detail::failed;
using detail::MutableByteSpan;

namespace {

constexpr std::uint64_t kFarthest = 8191;  // that a match reaches with 13 bits; a longer distance follows in two bytes

// A match whose control byte was read. False: the block ends inside it.
bool read_match(unsigned control, ByteSpan& in, std::uint64_t& length, std::uint64_t& offset) noexcept {
  const auto byte = [&in](std::uint64_t& value) {
    if (in.empty()) return false;
    value = static_cast<std::uint64_t>(in.front());
    in = in.subspan(1);
    return true;
  };
  length = (control >> 5) + 2;
  if (control >> 5 == 7) {
    std::uint64_t more = 255;
    while (more == 255) {
      if (!byte(more)) return false;
      length += more;
    }
  }
  const std::uint64_t upper = (control & 31) << 8;
  std::uint64_t lower = 0;
  if (!byte(lower)) return false;
  offset = upper + lower + 1;
  if (lower != 255 || upper != 31 << 8) return true;
  std::uint64_t high = 0, low = 0;
  if (!byte(high) || !byte(low)) return false;
  offset = (high << 8) + low + kFarthest + 1;
  return true;
}

}  // namespace

// A control byte below 32 is followed by as many literals and one more; other ones are matches. The first byte is
// always one of literals, whatever its upper bits are.
DecodeResult decode_blosclz(ByteSpan encoded, MutableByteSpan out) noexcept {
  ByteSpan in = encoded;
  std::uint64_t produced = 0;
  for (bool first = true; !in.empty(); first = false) {
    const unsigned control = static_cast<unsigned>(in.front()) & (first ? 31u : 255u);
    in = in.subspan(1);
    std::uint64_t length = control + 1, offset = 0;
    if (control >= 32) {
      if (!read_match(control, in, length, offset))
        return failed(DecodeStatus::frame, "blosclz: a match is cut off; decoded bytes", produced);
      if (in.empty())
        return failed(DecodeStatus::frame, "blosclz: the block does not end in literals; decoded bytes", produced);
    }
    if (length > out.size() - produced)
      return failed(DecodeStatus::size, "blosclz: more bytes than are left", length, out.size() - produced);
    std::byte* const to = out.data() + produced;
    if (control < 32) {
      if (length > in.size()) return failed(DecodeStatus::frame, "blosclz: literals are cut off", in.size(), length);
      std::memcpy(to, in.data(), length);
      in = in.subspan(length);
    } else {
      if (offset > produced)
        return failed(DecodeStatus::frame, "blosclz: an offset reaches before the first byte", offset, produced);
      detail::copy_match(to, offset, length);
    }
    produced += length;
  }
  if (produced != out.size()) return failed(DecodeStatus::size, "blosclz: decoded size", produced, out.size());
  return {};
}

}  // namespace damacy
