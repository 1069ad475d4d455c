// The head of an HTTP answer: what its lines say of the body. Parses bytes of servers; knows no connection.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace damacy::http {

inline constexpr std::size_t kHeadBytes = 256 << 10;  // of all lines, at most

struct ContentRange {
  std::optional<std::uint64_t> first;  // empty: `bytes */TOTAL`
  std::uint64_t last = 0;
  std::optional<std::uint64_t> total;  // empty: '*'
};

// Empty if the value is malformed, or its numbers are out of order or too large.
[[nodiscard]] std::optional<ContentRange> parse_content_range(std::string_view value);
[[nodiscard]] std::optional<std::uint64_t> parse_length(std::string_view value);
// Seconds to wait, at most 60: a number, or a date at which to ask again. `date`: when the server answered; without one
// its clock is taken to be as ours. Empty: malformed.
[[nodiscard]] std::optional<int> parse_retry_after(std::string_view value, std::string_view date = {});

class Head {
 public:
  // A line, also a status line: then a new answer begins, such as the one after a 1xx. False: the head is too long, or
  // its status is no number, or there is a NUL or a CR inside a line.
  [[nodiscard]] bool add_line(std::string_view line);

  int status = 0;
  std::optional<std::uint64_t> length;  // Content-Length
  std::optional<ContentRange> range;    // Content-Range
  std::string tag;                      // a strong ETag, with its quotes
  std::string modified;                 // Last-Modified
  std::string encoding;                 // Content-Encoding, unless it is identity
  std::string request_id;
  std::string retry_after;    // Retry-After, unread
  std::string date;           // of the server
  std::string location;       // of a redirect, unread
  std::string bucket_region;  // x-amz-bucket-region
  bool is_malformed = false;  // Content-Range or Content-Length
  bool is_multipart = false;
  bool is_complete = false;  // the empty line has come

  // Seconds.
  [[nodiscard]] std::optional<int> pause() const { return parse_retry_after(retry_after, date); }

 private:
  std::size_t bytes_ = 0;
};

}  // namespace damacy::http
