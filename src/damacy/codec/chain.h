// A chain of bytes->bytes codecs, decoded from the last to the first, into exactly N bytes. Knows byte formats; not
// arrays or files. Decoding allocates only until the context has grown to the largest intermediate stage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "damacy/codec/filters.h"
#include "damacy/codec/lzma.h"
#include "damacy/codec/ranges.h"
#include "damacy/codec/status.h"

namespace damacy {

enum class CodecId : std::uint8_t {
  zstd,
  blosc,
  gzip,
  zlib,
  lz4,
  bz2,
  lzma,
  crc32c,
  crc32,
  adler32,
  fletcher32,
  lookup3,
  shuffle,
  packbits,
  delta,
  fixed_scale_offset,
  cast,  // astype and quantize of numcodecs
};

struct CodecSpec {
  CodecId id;
  bool checksum_at_start = false;   // for checksums
  std::string name;                 // as in the metadata, for messages and ArrayInfo.codecs
  std::uint64_t shuffle_width = 4;  // for shuffle; 0 or 1: bytes are unchanged
  FilterTypes types{};              // for filters of elements
  Scaling scaling{};                // for fixed_scale_offset
  std::uint32_t seed = 0;           // for lookup3
  LzmaFormat lzma{};                // for lzma
  std::string slow{};               // the part without a fast decoder, such as "blosc of snappy"; empty: none

  // Whether it is a checksum of four bytes, which decoding verifies and removes.
  bool is_checksum() const noexcept { return id >= CodecId::crc32c && id <= CodecId::lookup3; }
  // Whether the decoded size determines the encoded size.
  bool is_fixed_size() const noexcept { return id >= CodecId::crc32c; }
  // For codecs of fixed size. Empty if `decoded` is not a whole number of elements, or the size exceeds 2^63.
  std::optional<std::uint64_t> encoded_size(std::uint64_t decoded) const noexcept;

  friend bool operator==(const CodecSpec&, const CodecSpec&) = default;
};

// The state that one thread reuses for all chunks: decompressor contexts, and memory for intermediate stages.
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
  // If no codec compresses: the exact size of an encoded chunk of `decoded` bytes.
  bool fixed_size() const noexcept;
  std::uint64_t fixed_encoded_size(std::uint64_t decoded) const noexcept;
  // The largest output of any codec of the chain for `decoded` bytes, as far as known beforehand. Empty: a filter's
  // element size does not divide its input.
  std::optional<std::uint64_t> largest_stage(std::uint64_t decoded) const noexcept;

  // Whether decode() verifies a checksum of all that this chunk holds: of a checksum codec, gzip, zlib or bz2, or of
  // every frame of zstd or the stream of .xz, if that is the last codec. Blosc's streams may be stored raw, without
  // one: they do not count.
  bool has_checksum(std::span<const std::byte> encoded) const noexcept;
  // The same, for any chunk.
  bool always_has_checksum() const noexcept;

  // Whether that many encoded bytes are allowed for `decoded` bytes. decode() and every other decoder check this first.
  DecodeResult check_encoded_size(std::uint64_t encoded, std::uint64_t decoded) const noexcept;

  // Decodes `encoded` into `out` (out.size() is N). If the status is ok, all bytes in `needed` (sorted, disjoint,
  // inside N) are right; other bytes of `out` are undefined, because some codecs can skip them. Always verifies
  // checksums.
  DecodeResult decode(std::span<const std::byte> encoded, std::span<std::byte> out, std::span<const ByteRange> needed,
                      DecodeContext& context) const;

  // Decodes input of unknown decoded size, to at most `bound` bytes. `decoded` is in `encoded` or in the context, and
  // valid until the next use of the context.
  DecodeResult decode_all(std::span<const std::byte> encoded, std::uint64_t bound, DecodeContext& context,
                          std::span<const std::byte>& decoded) const;

  // True if there are no codecs: the stored bytes are the chunk.
  bool is_raw() const noexcept { return codecs_.empty(); }

  // Partial reading: a chain of one blosc codec. First the head (head_bytes of it, or all if smaller), then the ranges
  // that partial_ranges gives, each read to its own offset of an `encoded`-sized buffer; then decode_partial.
  bool can_read_partially() const noexcept;
  static constexpr std::size_t kHeadBytes = 4096;
  // `head`: the first bytes of the encoded chunk. Appends what else to read, sorted, disjoint, inside the chunk; an
  // estimate that may be too small or too large. decode_partial returns need_more if it was too little (then read all).
  // Returns need_more itself if the head ends inside the start table: call again with a head of `expected` bytes, or
  // read all.
  DecodeResult partial_ranges(std::span<const std::byte> head, std::uint64_t encoded_size, std::uint64_t decoded_size,
                              std::span<const ByteRange> needed, std::vector<ByteRange>& ranges) const;
  // As decode. Does not read bytes of `encoded` outside `available` (sorted, disjoint).
  DecodeResult decode_partial(std::span<const std::byte> encoded, std::span<const ByteRange> available,
                              std::span<std::byte> out, std::span<const ByteRange> needed,
                              DecodeContext& context) const;

 private:
  std::vector<CodecSpec> codecs_;
};

// CRC-32C of RFC 3720 (initial value and final xor all ones).
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes) noexcept;

}  // namespace damacy
