// bzip2 data of one or more streams, as numcodecs' BZ2 writes them. Slow: a format that older arrays hold. The library
// verifies the checksums of every block and stream. A decoder belongs to one thread and keeps the library's memory,
// at most 4 MB.
#pragma once

#include <cstdint>
#include <memory>

#include "damacy/codec/bytes.h"
#include "damacy/codec/status.h"

namespace damacy {

class Bzip2Decoder {
 public:
  Bzip2Decoder();
  ~Bzip2Decoder();
  Bzip2Decoder(Bzip2Decoder&&) noexcept;
  Bzip2Decoder& operator=(Bzip2Decoder&&) noexcept;

  // Exactly out.size() bytes, or, with `produced`, at most that many. Throws std::bad_alloc.
  [[nodiscard]] DecodeResult decode(detail::ByteSpan encoded, detail::MutableByteSpan out,
                                    std::uint64_t* produced = nullptr);

 private:
  struct Memory;
  std::unique_ptr<Memory> memory_;
};

}  // namespace damacy
