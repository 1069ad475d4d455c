// The result of a decoder of untrusted bytes: small, no allocation, the same on host and device. The layer above makes
// the Error.
#pragma once

#include <cstdint>
#include <string_view>

namespace damacy {

enum class DecodeStatus : std::uint8_t {
  ok,
  frame,  // malformed
  size,   // well-formed, but not the size that metadata say
  checksum,
  dictionary,   // zstd frame that needs one
  unsupported,  // well-formed, and not built here
  limit,
  need_more,  // partial decoding only: touches bytes that were not read
};

// The reason code that users see (docs/_ext/reasons.toml); "" for ok.
[[nodiscard]] constexpr std::string_view reason_of(DecodeStatus status) noexcept {
  switch (status) {
    case DecodeStatus::ok:
      return "";
    case DecodeStatus::frame:
      return "frame";
    case DecodeStatus::size:
      return "size";
    case DecodeStatus::checksum:
      return "checksum";
    case DecodeStatus::dictionary:
      return "dictionary";
    case DecodeStatus::unsupported:
      return "codec";
    case DecodeStatus::limit:
      return "limit";
    case DecodeStatus::need_more:
      return "frame";
  }
  return "frame";
}

// A status with details: `detail` is a literal that explains the numbers.
struct DecodeResult {
  DecodeStatus status = DecodeStatus::ok;
  const char* detail = "";
  std::uint64_t seen = 0;
  std::uint64_t expected = 0;
  bool has_expected = true;  // else `seen` stands alone

  [[nodiscard]] bool ok() const noexcept { return status == DecodeStatus::ok; }
};

}  // namespace damacy
