// LZMA data in the three containers that numcodecs' LZMA writes: .xz, the older .lzma ("alone"), and none at all (raw),
// whose filters metadata tell. Slow: a format that older arrays hold. A decoder belongs to one thread and keeps the
// library's memory, whose size the data choose: Limits::lzma_memory bounds it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "damacy/codec/bytes.h"
#include "damacy/codec/status.h"

namespace damacy {

// A filter of raw data, by the library's number; each kind has some of the options.
struct LzmaFilter {
  static constexpr std::uint64_t kLzma1 = 0x4000000000000001, kLzma2 = 0x21, kDelta = 0x03;
  static constexpr std::uint64_t kFirstBranch = 0x04, kLastBranch = 0x09;  // x86 to SPARC: calls made relative

  std::uint64_t id = kLzma2;
  std::uint32_t dictionary = 0;        // bytes; this and the next three of LZMA
  std::uint32_t literal_context = 3;   // bits
  std::uint32_t literal_position = 0;  // bits
  std::uint32_t position = 2;          // bits
  std::uint32_t distance = 1;          // of delta
  std::uint32_t start = 0;             // of branch filters
  friend bool operator==(const LzmaFilter&, const LzmaFilter&) = default;
};

struct LzmaFormat {
  enum class Container : std::uint8_t { xz, alone, raw };
  Container container = Container::xz;
  std::vector<LzmaFilter> filters;  // of raw, in encoding order
  friend bool operator==(const LzmaFormat&, const LzmaFormat&) = default;
};

// The dictionary of a preset, 0 to 9 with or without the library's flag "extreme"; empty: there is no such preset.
[[nodiscard]] std::optional<std::uint32_t> lzma_dictionary(std::uint32_t preset) noexcept;
// Memory that decoding raw data of these filters takes; empty: the library has no such chain.
[[nodiscard]] std::optional<std::uint64_t> lzma_raw_memory(const std::vector<LzmaFilter>& filters) noexcept;
// Whether these are one .xz stream that holds a checksum of its data.
[[nodiscard]] bool xz_has_checksum(detail::ByteSpan encoded) noexcept;

class LzmaDecoder {
 public:
  LzmaDecoder();
  ~LzmaDecoder();
  LzmaDecoder(LzmaDecoder&&) noexcept;
  LzmaDecoder& operator=(LzmaDecoder&&) noexcept;

  // Exactly out.size() bytes, or, with `produced`, at most that many. Throws std::bad_alloc.
  [[nodiscard]] DecodeResult decode(const LzmaFormat& format, detail::ByteSpan encoded, detail::MutableByteSpan out,
                                    std::uint64_t* produced = nullptr);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace damacy
