// A chain of bytes->bytes codecs, decoded from the last to the first, into exactly N bytes.
// Knows byte formats (formats.md section 7); not arrays, not files. Decoding allocates nothing after the context grew
// to the largest chunk that needs an intermediate stage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "damacy/codec/ranges.h"
#include "damacy/codec/status.h"

namespace damacy {

enum class CodecId : std::uint8_t { zstd, blosc, gzip, zlib, lz4, crc32c };

struct CodecSpec {
  CodecId id;
  bool checksum_at_start = false;  // crc32c only
  std::string name;                // as metadata spell it, for messages and ArrayInfo.codecs

  friend bool operator==(const CodecSpec&, const CodecSpec&) = default;
};

// What one thread keeps between chunks: decompressor states and memory for intermediate stages.
class DecodeContext {
 public:
  DecodeContext();
  ~DecodeContext();
  DecodeContext(DecodeContext&&) noexcept;
  DecodeContext& operator=(DecodeContext&&) noexcept;

  struct State;
  State& state() noexcept { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

class CodecChain {
 public:
  CodecChain() = default;
  explicit CodecChain(std::vector<CodecSpec> codecs) : codecs_(std::move(codecs)) {}  // in encoding order

  std::span<const CodecSpec> codecs() const noexcept { return codecs_; }
  // No codec changes the size but checksums (+4 each): what an encoded chunk of `decoded` bytes must measure.
  bool fixed_size() const noexcept;
  std::uint64_t fixed_encoded_size(std::uint64_t decoded) const noexcept;

  // Decodes `encoded` into `out` (out.size() is N). Every byte of `needed` (sorted, disjoint, inside N) is right when
  // ok; other bytes of `out` may be anything. All of N is produced unless a codec can skip. Stored checksums are always
  // verified.
  DecodeResult decode(std::span<const std::byte> encoded, std::span<std::byte> out, std::span<const ByteRange> needed,
                      DecodeContext& context) const;

  // Decodes what nobody knows the decoded size of, at most `bound` bytes. `decoded` is in `encoded` or in the context,
  // until that is used again.
  DecodeResult decode_all(std::span<const std::byte> encoded, std::uint64_t bound, DecodeContext& context,
                          std::span<const std::byte>& decoded) const;

  // Raw chunks (no codec at all, or... fixed_size() and no checksum) need no decoding: place from where they were read.
  bool is_raw() const noexcept { return codecs_.empty(); }

  // Partial reading: a chain of one blosc codec. First the head (head_bytes of it, or all if smaller), then the ranges
  // that partial_ranges gives, each read to its own offset of an `encoded`-sized buffer; then decode_partial.
  bool can_read_partially() const noexcept;
  static constexpr std::size_t kHeadBytes = 4096;
  // `head`: the first bytes of the encoded chunk. Appends what else to read, sorted, disjoint, inside the chunk; an
  // estimate from below and above: decode_partial says need_more if it was too little (then read all). Says need_more
  // itself if the head ends inside the start table: ask again with a head of `expected` bytes, or read all.
  DecodeResult partial_ranges(std::span<const std::byte> head, std::uint64_t encoded_size, std::uint64_t decoded_size,
                              std::span<const ByteRange> needed, std::vector<ByteRange>& ranges) const;
  // As decode; bytes of `encoded` outside `available` (sorted, disjoint) are never looked at.
  DecodeResult decode_partial(std::span<const std::byte> encoded, std::span<const ByteRange> available,
                              std::span<std::byte> out, std::span<const ByteRange> needed,
                              DecodeContext& context) const;

 private:
  std::vector<CodecSpec> codecs_;
};

// CRC-32C of RFC 3720 (initial value and final xor all ones).
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes) noexcept;

}  // namespace damacy
