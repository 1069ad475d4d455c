// Reads little-endian numbers from bytes of any alignment; helpers for failure results. Knows no format. The caller has
// checked the bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "damacy/codec/status.h"
#include "damacy/core/host_device_macro.h"

namespace damacy::detail {

using ByteSpan = std::span<const std::byte>;
using MutableByteSpan = std::span<std::byte>;

// `count` <= 8 bytes, least significant first.
DAMACY_HOST_DEVICE constexpr std::uint64_t read_le(const std::byte* bytes, unsigned count) noexcept {
  std::uint64_t value = 0;
  for (unsigned i = 0; i < count; ++i) value |= static_cast<std::uint64_t>(bytes[i]) << (8 * i);
  return value;
}

DAMACY_HOST_DEVICE constexpr std::uint32_t read_le32(const std::byte* bytes) noexcept {
  return static_cast<std::uint32_t>(read_le(bytes, 4));
}

DAMACY_HOST_DEVICE constexpr DecodeResult failed(DecodeStatus status, const char* detail, std::uint64_t seen,
                                                 std::uint64_t expected) noexcept {
  return {status, detail, seen, expected};
}
DAMACY_HOST_DEVICE constexpr DecodeResult failed(DecodeStatus status, const char* detail, std::uint64_t seen) noexcept {
  return {status, detail, seen, 0, /*has_expected=*/false};
}
DAMACY_HOST_DEVICE constexpr DecodeResult failed(DecodeStatus status, const char* detail) noexcept {
  return {status, detail};
}

}  // namespace damacy::detail
