// AWS Signature Version 4: the header that proves who sends a request. A pure function of the request, the credentials
// and the time. Knows texts; sends nothing, and does not know where credentials come from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace damacy::s3 {

// SHA-256 of an empty body, in hexadecimal.
inline constexpr std::string_view kEmptyBodySha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

struct Keys {
  std::string access_key_id;
  std::string secret_access_key;
  std::string session_token;  // empty: none
};

struct Scope {
  std::string_view region;
  std::string_view service;  // "s3"
  std::int64_t unix_s = 0;
};

using Fields = std::vector<std::pair<std::string, std::string>>;

struct ToSign {
  std::string_view method;
  std::string_view path;         // percent-encoded as it is sent; not encoded again, as S3 has it
  std::string_view query;        // as query_text() makes it
  Fields headers;                // all of them are signed: names in lower case, host among them
  std::string_view body_sha256;  // in hexadecimal
};

// `20150830T123600Z`.
[[nodiscard]] std::string amz_date(std::int64_t unix_s);

// Percent-encodes all except unreserved characters (RFC 3986); '/' stays if `keep_slash`.
[[nodiscard]] std::string percent_encoded(std::string_view raw, bool keep_slash);

// A query in the order and encoding that is signed, without '?'.
[[nodiscard]] std::string query_text(Fields parameters);

// The value of the header Authorization.
[[nodiscard]] std::string authorization(const ToSign& request, const Keys& keys, const Scope& scope);

}  // namespace damacy::s3
