// Raw LZ4 blocks, and the numcodecs form of them: a 32-bit size in front. Stateless.
#pragma once

#include <cstdint>

#include "damacy/codec/bytes.h"
#include "damacy/codec/status.h"

namespace damacy {

// One raw block that uses up `encoded` and gives exactly out.size() bytes.
[[nodiscard]] DecodeResult decode_lz4_block(detail::ByteSpan encoded, detail::MutableByteSpan out) noexcept;

// With the size in front. The size is what the first four bytes say; it must be out.size().
[[nodiscard]] DecodeResult lz4_decoded_size(detail::ByteSpan encoded, std::uint64_t& size) noexcept;
[[nodiscard]] DecodeResult decode_lz4(detail::ByteSpan encoded, detail::MutableByteSpan out) noexcept;

}  // namespace damacy
