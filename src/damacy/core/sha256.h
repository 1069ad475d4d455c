// SHA-256 and HMAC-SHA-256 of short texts: signatures of requests, names of versions. Knows bytes; not their use. No
// library that damacy links has them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace damacy {

using Sha256 = std::array<std::uint8_t, 32>;

[[nodiscard]] Sha256 sha256(std::string_view message) noexcept;
[[nodiscard]] Sha256 hmac_sha256(std::string_view key, std::string_view message);

[[nodiscard]] std::string hex(const Sha256& digest);  // lower case
[[nodiscard]] std::string_view bytes_of(const Sha256& digest);

}  // namespace damacy
