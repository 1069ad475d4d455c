// Decodes zstd inputs (RFC 8878) by libzstd, straight into the output, after ZstdWalk has checked every header.
// Knows no codec chain. One decoder belongs to one thread; it allocates when it is made and never again.
#pragma once

#include <cstdint>
#include <memory>

#include "damacy/codec/bytes.h"
#include "damacy/codec/status.h"
#include "damacy/codec/zstd_walk.h"

struct ZSTD_DCtx_s;

namespace damacy {

// Walks all frames and blocks. `bound`: more decoded bytes than that is DecodeStatus::size.
[[nodiscard]] DecodeResult check_zstd(detail::ByteSpan encoded, std::uint64_t bound, ZstdExtent& extent) noexcept;

class ZstdDecoder {
 public:
  ZstdDecoder();
  ~ZstdDecoder();
  ZstdDecoder(ZstdDecoder&&) noexcept;
  ZstdDecoder& operator=(ZstdDecoder&&) noexcept;

  // Exactly out.size() bytes, of which those before `needed_end` are right; whole frames and blocks behind it that no
  // checksum covers are left out.
  [[nodiscard]] DecodeResult decode(detail::ByteSpan encoded, detail::MutableByteSpan out,
                                    std::uint64_t needed_end) noexcept;
  // An intermediate stage of unknown size: at most out.size() bytes; `produced` is the number.
  [[nodiscard]] DecodeResult decode_up_to(detail::ByteSpan encoded, detail::MutableByteSpan out,
                                          std::uint64_t& produced) noexcept;

 private:
  struct Freer {
    void operator()(ZSTD_DCtx_s* context) const noexcept;
  };
  [[nodiscard]] DecodeResult decode_frames(detail::ByteSpan encoded, detail::MutableByteSpan out,
                                           std::uint64_t needed_end, std::uint64_t& produced) noexcept;
  [[nodiscard]] DecodeResult decode_frame(detail::ByteSpan frame, detail::MutableByteSpan out, std::uint64_t wanted,
                                          std::uint64_t& produced) noexcept;

  std::unique_ptr<ZSTD_DCtx_s, Freer> context_;
};

}  // namespace damacy
