// Raw LZ4 blocks, and numcodecs' form of them, which begins with a 32-bit size. Stateless.
#pragma once

#include <cstdint>

#include "damacy/codec/bytes.h"
#include "damacy/codec/status.h"

namespace damacy {

// One raw block that uses up `encoded` and gives exactly out.size() bytes.
[[nodiscard]] DecodeResult decode_lz4_block(detail::ByteSpan encoded, detail::MutableByteSpan out) noexcept;

// With a leading size of four bytes, which must be out.size().
[[nodiscard]] DecodeResult lz4_decoded_size(detail::ByteSpan encoded, std::uint64_t& size) noexcept;
[[nodiscard]] DecodeResult decode_lz4(detail::ByteSpan encoded, detail::MutableByteSpan out) noexcept;

}  // namespace damacy
