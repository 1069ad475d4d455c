// Decodes zstd inputs (RFC 8878) by libzstd, directly into the output, after ZstdWalk has checked every header. Knows
// no codec chain. A decoder is used by one thread and allocates only in its constructor.
#pragma once

#include <cstdint>
#include <memory>

#include "damacy/codec/bytes.h"
#include "damacy/codec/status.h"
#include "damacy/codec/zstd_walk.h"

struct ZSTD_DCtx_s;

namespace damacy {

// Walks all frames and blocks. More than `bound` decoded bytes give DecodeStatus::size.
[[nodiscard]] DecodeResult check_zstd(detail::ByteSpan encoded, std::uint64_t bound, ZstdExtent& extent) noexcept;

class ZstdDecoder {
 public:
  ZstdDecoder();
  ~ZstdDecoder();
  ZstdDecoder(ZstdDecoder&&) noexcept;
  ZstdDecoder& operator=(ZstdDecoder&&) noexcept;

  // Decodes exactly out.size() bytes. Only those before `needed_end` are right: whole frames and blocks after it are
  // skipped unless a checksum covers them.
  [[nodiscard]] DecodeResult decode(detail::ByteSpan encoded, detail::MutableByteSpan out,
                                    std::uint64_t needed_end) noexcept;
  // Decodes an intermediate stage of unknown size: at most out.size() bytes; `produced` is the actual number.
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
