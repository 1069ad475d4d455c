// SHA-256 and HMAC-SHA-256 of short texts: requests are signed with them. Knows bytes; not requests or keys. No library
// that damacy links has them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace damacy::s3 {

using Digest = std::array<std::uint8_t, 32>;

[[nodiscard]] Digest sha256(std::string_view message);
[[nodiscard]] Digest hmac_sha256(std::string_view key, std::string_view message);

[[nodiscard]] std::string hex(const Digest& digest);  // lower case
[[nodiscard]] std::string_view bytes_of(const Digest& digest);

}  // namespace damacy::s3
