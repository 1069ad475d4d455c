// gzip of any number of members, and zlib (RFC 1950 to 1952). The wrappers are read here, the deflate data by ISA-L;
// checksums are always verified. One decoder belongs to one thread; it allocates when it is made and never again.
#pragma once

#include <cstdint>
#include <memory>

#include "damacy/codec/bytes.h"
#include "damacy/codec/status.h"

struct inflate_state;

namespace damacy {

class InflateDecoder {
 public:
  InflateDecoder();
  ~InflateDecoder();
  InflateDecoder(InflateDecoder&&) noexcept;
  InflateDecoder& operator=(InflateDecoder&&) noexcept;

  // Exactly out.size() bytes, or, with `produced`, at most that many.
  [[nodiscard]] DecodeResult decode_gzip(detail::ByteSpan encoded, detail::MutableByteSpan out,
                                         std::uint64_t* produced = nullptr) noexcept;
  [[nodiscard]] DecodeResult decode_zlib(detail::ByteSpan encoded, detail::MutableByteSpan out,
                                         std::uint64_t* produced = nullptr) noexcept;

 private:
  struct Amounts {
    std::uint64_t consumed = 0;
    std::uint64_t produced = 0;
  };
  [[nodiscard]] DecodeResult inflate(detail::ByteSpan encoded, detail::MutableByteSpan out, Amounts& amounts) noexcept;
  [[nodiscard]] DecodeResult gzip_member(detail::ByteSpan encoded, detail::MutableByteSpan out,
                                         Amounts& amounts) noexcept;

  std::unique_ptr<inflate_state> state_;
};

}  // namespace damacy
