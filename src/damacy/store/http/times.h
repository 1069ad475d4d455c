// Times as servers write them. Parses bytes of servers.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace damacy::http {

// Seconds since 1970. RFC 3339 in UTC: `2026-11-23T10:00:00Z`.
[[nodiscard]] std::optional<std::int64_t> parse_time(std::string_view value);
// `Mon, 23 Nov 2026 10:00:00 GMT`.
[[nodiscard]] std::optional<std::int64_t> parse_http_date(std::string_view value);

[[nodiscard]] std::int64_t unix_now();

}  // namespace damacy::http
