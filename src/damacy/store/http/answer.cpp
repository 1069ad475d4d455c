#include "damacy/store/http/answer.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "damacy/core/limits.h"
#include "damacy/store/http/times.h"

namespace damacy::http {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r' || text.back() == '\n'))
    text.remove_suffix(1);
  return text;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

// Takes digits from the front; at most what a file size can be.
std::optional<std::uint64_t> take_number(std::string_view& text) {
  std::uint64_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

bool take(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

// A strong tag: quoted, without quotes and control characters inside.
bool is_strong_tag(std::string_view tag) {
  if (tag.size() < 2 || tag.size() > 1024 || tag.front() != '"' || tag.back() != '"') return false;
  const auto inside = tag.substr(1, tag.size() - 2);
  return std::none_of(inside.begin(), inside.end(),
                      [](char c) { return c == '"' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

bool is_date(std::string_view text) {
  return !text.empty() && text.size() < 64 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

// A list of what was done to the body. `aws-chunked` says how it was uploaded: some services keep that word, though the
// stored bytes are plain.
bool is_encoded(std::string_view list) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    const std::string each = lower(trimmed(list.substr(0, comma)));
    if (!each.empty() && each != "identity" && each != "aws-chunked") return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

}  // namespace

std::optional<std::uint64_t> parse_length(std::string_view value) {
  const auto number = take_number(value);
  return value.empty() ? number : std::nullopt;
}

std::optional<ContentRange> parse_content_range(std::string_view value) {
  constexpr std::string_view kUnit = "bytes ";
  if (!lower(value.substr(0, kUnit.size())).starts_with(kUnit)) return std::nullopt;
  value.remove_prefix(kUnit.size());
  ContentRange range;
  if (!take(value, '*')) {
    range.first = take_number(value);
    if (!range.first || !take(value, '-')) return std::nullopt;
    const auto last = take_number(value);
    if (!last || *last < *range.first) return std::nullopt;
    range.last = *last;
  }
  if (!take(value, '/')) return std::nullopt;
  if (value == "*") return range.first ? std::optional(range) : std::nullopt;
  range.total = parse_length(value);
  if (!range.total || (range.first && range.last >= *range.total)) return std::nullopt;
  return range;
}

std::optional<int> parse_retry_after(std::string_view value, std::string_view date) {
  constexpr int kMost = 60;
  if (const auto seconds = parse_length(value)) return static_cast<int>(std::min<std::uint64_t>(*seconds, kMost));
  const auto when = parse_http_date(value);
  if (!when) return std::nullopt;
  const std::int64_t left = *when - parse_http_date(date).value_or(unix_now());
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, kMost));
}

bool Head::add_line(std::string_view line) {
  bytes_ += line.size();
  if (bytes_ > kHeadBytes) return false;
  if (is_complete && status >= 200) return true;  // a trailer: the body was taken by what the head said
  while (line.ends_with('\n') || line.ends_with('\r')) line.remove_suffix(1);
  if (line.find('\r') != line.npos || line.find('\0') != line.npos) return false;
  if (line.empty()) is_complete = true;
  if (line.starts_with("HTTP/")) {
    const std::size_t seen = bytes_;
    *this = Head();
    bytes_ = seen;
    const std::size_t space = line.find(' ');
    if (space == line.npos) return false;
    std::string_view rest = line.substr(space + 1);
    const auto number = take_number(rest);
    if (!number || *number < 100 || *number > 999) return false;
    status = static_cast<int>(*number);
    return true;
  }
  const std::size_t colon = line.find(':');
  if (colon == line.npos) return true;
  const std::string name = lower(line.substr(0, colon));
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (name == "content-length") {
    const auto number = parse_length(value);
    if (!number || (length && *length != *number)) is_malformed = true;
    length = number;
  } else if (name == "content-range") {
    if (range) is_malformed = true;
    range = parse_content_range(value);
    if (!range) is_malformed = true;
  } else if (name == "etag") {
    if (is_strong_tag(value)) tag = value;
  } else if (name == "last-modified") {
    if (is_date(value)) modified = value;
  } else if (name == "content-encoding") {
    if (is_encoded(value)) encoding = value.substr(0, 40);
  } else if (name == "content-type") {
    is_multipart = lower(value).starts_with("multipart/");
  } else if (name == "retry-after") {
    retry_after = value.substr(0, 40);
  } else if (name == "x-amz-request-id" || name == "x-request-id" || name == "x-ms-request-id" ||
             name == "x-guploader-uploadid" || name == "x-goog-request-id") {
    request_id = value.substr(0, 100);
  } else if (name == "date") {
    date = value.substr(0, 40);
  } else if (name == "location") {
    location = value.substr(0, Limits::uri_bytes);
  } else if (name == "x-amz-bucket-region") {
    bucket_region = value.substr(0, 40);
  }
  return true;
}

}  // namespace damacy::http
