#include "damacy/codec/snappy.h"

#include <cstring>

#include "damacy/codec/copy_match.h"

namespace damacy {

using detail::ByteSpan;
using detail::failed;
using detail::MutableByteSpan;

namespace {

// What a tag byte begins: bytes of the input, or of the output so far.
struct Element {
  bool is_literal = false;
  std::uint64_t length = 0;
  std::uint64_t offset = 0;
};

class Input {
 public:
  explicit Input(ByteSpan bytes) noexcept : bytes_(bytes) {}
  std::size_t left() const noexcept { return bytes_.size(); }
  unsigned byte() noexcept {
    const auto value = static_cast<unsigned>(bytes_.front());
    bytes_ = bytes_.subspan(1);
    return value;
  }
  std::uint64_t number(unsigned count) noexcept {
    const std::uint64_t value = detail::read_le(bytes_.data(), count);
    bytes_ = bytes_.subspan(count);
    return value;
  }
  ByteSpan take(std::size_t count) noexcept {
    const ByteSpan taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }

 private:
  ByteSpan bytes_;
};

// Seven bits a byte, the least significant first; the last byte is below 128.
bool read_size(Input& in, std::uint64_t& size) noexcept {
  size = 0;
  for (unsigned shift = 0; shift < 35; shift += 7) {
    if (in.left() == 0) return false;
    const std::uint64_t part = in.byte();
    size |= (part & 127) << shift;
    if (part < 128) return size <= 0xffffffffu;
  }
  return false;
}

bool read_element(Input& in, Element& element) noexcept {
  const unsigned tag = in.byte();
  const unsigned kind = tag & 3, upper = tag >> 2;
  // How many bytes belong to the tag: of a long literal its length, of a copy its offset.
  const unsigned more = kind == 0 ? (upper < 60 ? 0 : upper - 59) : kind == 3 ? 4 : kind;
  if (in.left() < more) return false;
  const std::uint64_t number = in.number(more);
  element.is_literal = kind == 0;
  if (kind == 0)
    element.length = (more == 0 ? upper : number) + 1;
  else
    element.length = kind == 1 ? (upper & 7) + 4 : upper + 1;
  element.offset = kind == 1 ? (tag >> 5) << 8 | number : number;
  return true;
}

}  // namespace

DecodeResult decode_snappy(ByteSpan encoded, MutableByteSpan out) noexcept {
  Input in(encoded);
  std::uint64_t size = 0, produced = 0;
  if (!read_size(in, size)) return failed(DecodeStatus::frame, "snappy: the size in front is cut off or too large");
  if (size != out.size()) return failed(DecodeStatus::size, "snappy: size in front of the block", size, out.size());
  while (in.left() != 0) {
    Element element;
    if (!read_element(in, element))
      return failed(DecodeStatus::frame, "snappy: an element is cut off; decoded bytes", produced);
    if (element.length > out.size() - produced)
      return failed(DecodeStatus::size, "snappy: an element for more bytes than are left", element.length,
                    out.size() - produced);
    std::byte* const to = out.data() + produced;
    if (element.is_literal) {
      if (element.length > in.left())
        return failed(DecodeStatus::frame, "snappy: literals are cut off", in.left(), element.length);
      std::memcpy(to, in.take(element.length).data(), element.length);
    } else {
      if (element.offset == 0 || element.offset > produced)
        return failed(DecodeStatus::frame, "snappy: an offset is zero or reaches before the first byte", element.offset,
                      produced);
      detail::copy_match(to, element.offset, element.length);
    }
    produced += element.length;
  }
  if (produced != out.size()) return failed(DecodeStatus::size, "snappy: decoded size", produced, out.size());
  return {};
}

}  // namespace damacy
