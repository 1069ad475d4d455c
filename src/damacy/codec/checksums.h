// Checksums other than crc32c (chain.h): CRC-32 of RFC 1952 and Adler-32 of RFC 1950 by ISA-L; Fletcher-32 and lookup3
// as HDF5 and numcodecs compute them, written here.
#pragma once

#include <cstdint>

#include "damacy/codec/bytes.h"

namespace damacy {

[[nodiscard]] std::uint32_t crc32(detail::ByteSpan bytes) noexcept;
[[nodiscard]] std::uint32_t adler32(detail::ByteSpan bytes) noexcept;
// Two sums modulo 65535 over big-endian 16-bit words; a last byte without a partner is the high one of a word.
[[nodiscard]] std::uint32_t fletcher32(detail::ByteSpan bytes) noexcept;
// Bob Jenkins's hash of bytes, "hashlittle".
[[nodiscard]] std::uint32_t lookup3(detail::ByteSpan bytes, std::uint32_t seed) noexcept;

}  // namespace damacy
