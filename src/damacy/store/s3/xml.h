// The XML that S3 answers with: errors and listings. Parses bytes of servers, and keeps nothing but what is used: the
// body of an error may hold the text that was signed, with its token. Knows no connection.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "damacy/store/http/service.h"

namespace damacy::s3 {

// Calls `leaf` with the names from the root to each element that holds only text, and with that text. False: the body
// is malformed, or nested deeper than 16 elements.
[[nodiscard]] bool walk_xml(std::string_view body,
                            const std::function<void(std::span<const std::string_view> path, std::string text)>& leaf);

struct ErrorBody {
  std::string code;     // letters and digits, at most 60
  std::string message;  // at most 200 bytes, one line
  std::string region;
  std::string endpoint;  // HOST that the bucket is to be asked at; at most 200 bytes
};

// Empty fields: the body does not have them.
[[nodiscard]] ErrorBody parse_error(std::string_view body);

// The names directly below `prefix`, which is empty or ends in '/'. Empty: the body is no listing.
[[nodiscard]] std::optional<http::ListingPage> parse_listing(std::string_view prefix, std::string_view body);

}  // namespace damacy::s3
