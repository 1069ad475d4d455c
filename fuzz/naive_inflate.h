// Deflate data (RFC 1951) decoded bit by bit, to be read and not to be fast. Takes codes that leave bit patterns
// unused, which are unambiguous, and refuses over-subscribed ones. `used` says where the data end.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace damacy::fuzz {

class NaiveInflate {
 public:
  NaiveInflate(std::span<const std::byte> in, std::size_t most) : in_(in), most_(most) {}

  // Empty if the data are malformed, end early, or give more than `most` bytes.
  std::optional<std::vector<std::byte>> decoded() {
    bool last = false;
    while (good_ && !last) {
      last = bits(1) != 0;
      switch (bits(2)) {
        case 0:
          stored_block();
          break;
        case 1:
          fixed_block();
          break;
        case 2:
          dynamic_block();
          break;
        default:
          good_ = false;
      }
    }
    return good_ ? std::optional(out_) : std::nullopt;
  }

  std::size_t used() const { return (position_ + 7) / 8; }

 private:
  struct Code {
    std::array<unsigned, 16> count{};
    std::vector<unsigned> symbols;  // by length, then by value
  };

  unsigned bits(unsigned count) {
    unsigned value = 0;
    for (unsigned i = 0; i < count; ++i, ++position_) {
      if (position_ / 8 >= in_.size()) return good_ = false, 0;
      value |= (static_cast<unsigned>(in_[position_ / 8]) >> (position_ % 8) & 1u) << i;
    }
    return value;
  }

  Code code_of(std::span<const unsigned> lengths) {
    Code code;
    int left = 1;
    for (unsigned length = 1; length < 16; ++length) {
      for (unsigned symbol = 0; symbol < lengths.size(); ++symbol)
        if (lengths[symbol] == length) {
          ++code.count[length];
          code.symbols.push_back(symbol);
        }
      left = 2 * left - static_cast<int>(code.count[length]);
      if (left < 0) good_ = false;  // more codes than bit patterns
      if (left < 0) return code;
    }
    return code;
  }

  unsigned symbol(const Code& code) {
    unsigned value = 0, first = 0, index = 0;
    for (unsigned length = 1; length < 16 && good_; ++length) {
      value |= bits(1);
      if (value - first < code.count[length]) return code.symbols[index + value - first];
      index += code.count[length];
      first = (first + code.count[length]) * 2;
      value *= 2;
    }
    good_ = false;
    return 0;
  }

  void put(std::byte byte) {
    good_ = good_ && out_.size() < most_;
    if (good_) out_.push_back(byte);
  }

  void stored_block() {
    position_ = (position_ + 7) / 8 * 8;
    const unsigned length = bits(16);
    if (bits(16) != (~length & 0xffff)) good_ = false;
    for (unsigned i = 0; i < length && good_; ++i) put(static_cast<std::byte>(bits(8)));
  }

  void fixed_block() {
    std::vector<unsigned> lengths(288, 8);
    for (unsigned i = 144; i < 256; ++i) lengths[i] = 9;
    for (unsigned i = 256; i < 280; ++i) lengths[i] = 7;
    compressed_data(code_of(lengths), code_of(std::vector<unsigned>(32, 5)));
  }

  void dynamic_block() {
    static constexpr std::array<unsigned, 19> kOrder{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    const unsigned literals = bits(5) + 257, distances = bits(5) + 1, count = bits(4) + 4;
    if (literals > 286 || distances > 30) good_ = false;
    std::vector<unsigned> lengths(19, 0);
    for (unsigned i = 0; i < count; ++i) lengths[kOrder[i]] = bits(3);
    const Code code = code_of(lengths);
    lengths.clear();
    while (good_ && lengths.size() < literals + distances) {
      const unsigned value = symbol(code);
      if (value == 16 && lengths.empty()) good_ = false;
      if (!good_) return;
      const unsigned times = value < 16 ? 1 : value == 16 ? 3 + bits(2) : value == 17 ? 3 + bits(3) : 11 + bits(7);
      lengths.insert(lengths.end(), times, value < 16 ? value : value == 16 ? lengths.back() : 0);
    }
    if (lengths.size() > literals + distances) good_ = false;
    if (!good_) return;
    const std::span<const unsigned> all(lengths);
    const Code literal_code = code_of(all.first(literals));
    const Code distance_code = code_of(all.subspan(literals));
    compressed_data(literal_code, distance_code);
  }

  void compressed_data(const Code& literal_code, const Code& distance_code) {
    while (good_) {
      const unsigned value = symbol(literal_code);
      if (!good_ || value == 256) return;
      if (value < 256)
        put(static_cast<std::byte>(value));
      else if (value > 285)
        good_ = false;
      else
        match(length_of(value - 257), symbol(distance_code));
    }
  }

  unsigned length_of(unsigned code) {
    if (code == 28) return 258;
    if (code < 8) return code + 3;
    const unsigned extra = code / 4 - 1;
    return ((4 + code % 4) << extra) + 3 + bits(extra);
  }

  void match(unsigned length, unsigned code) {
    if (code > 29) good_ = false;
    if (!good_) return;
    const unsigned extra = code < 4 ? 0 : code / 2 - 1;
    const std::size_t distance = (code < 4 ? code + 1 : ((2 + code % 2) << extra) + 1) + bits(extra);
    if (distance > out_.size()) good_ = false;
    for (unsigned i = 0; i < length && good_; ++i) put(out_[out_.size() - distance]);
  }

  std::span<const std::byte> in_;
  std::size_t most_;
  std::size_t position_ = 0;  // in bits
  std::vector<std::byte> out_;
  bool good_ = true;
};

}  // namespace damacy::fuzz
