// Checksums by ISA-L, beside crc32c (chain.h): CRC-32 of RFC 1952 and Adler-32 of RFC 1950.
#pragma once

#include <cstdint>

#include "damacy/codec/bytes.h"

namespace damacy {

[[nodiscard]] std::uint32_t crc32(detail::ByteSpan bytes) noexcept;
[[nodiscard]] std::uint32_t adler32(detail::ByteSpan bytes) noexcept;

}  // namespace damacy
