#include "damacy/store/s3/xml.h"

#include <algorithm>
#include <charconv>

#include "damacy/core/error.h"

namespace damacy::s3 {
namespace {

constexpr std::size_t kDepth = 16;

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

void append_utf8(std::string& out, std::uint32_t code) {
  const auto add = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xc0 | code >> 6), add(0x80 | (code & 63));
  } else if (code < 0x10000) {
    add(0xe0 | code >> 12), add(0x80 | (code >> 6 & 63)), add(0x80 | (code & 63));
  } else {
    add(0xf0 | code >> 18), add(0x80 | (code >> 12 & 63)), add(0x80 | (code >> 6 & 63)), add(0x80 | (code & 63));
  }
}

// Empty: an entity that is not known.
std::optional<std::string> unescaped(std::string_view raw) {
  std::string out;
  while (!raw.empty()) {
    const std::size_t at = std::min(raw.find('&'), raw.size());
    out += raw.substr(0, at);
    raw.remove_prefix(at);
    if (raw.empty()) break;
    const std::size_t end = raw.find(';');
    if (end == raw.npos || end > 10) return std::nullopt;
    const std::string_view name = raw.substr(1, end - 1);
    raw.remove_prefix(end + 1);
    if (name == "amp") {
      out += '&';
    } else if (name == "lt") {
      out += '<';
    } else if (name == "gt") {
      out += '>';
    } else if (name == "quot") {
      out += '"';
    } else if (name == "apos") {
      out += '\'';
    } else if (name.starts_with('#')) {
      const bool is_hex = name.size() > 1 && name[1] == 'x';
      const std::string_view digits = name.substr(is_hex ? 2 : 1);
      std::uint32_t code = 0;
      const char* const last = digits.data() + digits.size();
      const auto read = std::from_chars(digits.data(), last, code, is_hex ? 16 : 10);
      if (digits.empty() || read.ec != std::errc() || read.ptr != last || code == 0 || code > 0x10ffff)
        return std::nullopt;
      append_utf8(out, code);
    } else {
      return std::nullopt;
    }
  }
  return out;
}

// A name without its namespace.
std::string_view local(std::string_view name) {
  return name.substr(name.rfind(':') + 1);  // npos + 1 is 0
}

std::string word(std::string_view value, std::size_t most) {
  const bool fits = value.size() <= most && std::all_of(value.begin(), value.end(), [](char c) {
                      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
                    });
  return fits ? std::string(value) : std::string();
}

}  // namespace

bool walk_xml(std::string_view body,
              const std::function<void(std::span<const std::string_view> path, std::string text)>& leaf) {
  std::vector<std::string_view> path;
  std::string_view raw;  // the text since the last tag
  bool is_leaf = false;  // no element ended since the last one began
  bool seen_root = false;
  while (!body.empty()) {
    const std::size_t open = std::min(body.find('<'), body.size());
    raw = body.substr(0, open);
    if (path.empty() && !std::all_of(raw.begin(), raw.end(), is_space)) return false;
    body.remove_prefix(open);
    if (body.empty()) break;
    if (body.starts_with("<!--") || body.starts_with("<?")) {
      const std::string_view mark = body[1] == '?' ? "?>" : "-->";
      const std::size_t end = body.find(mark);
      if (end == body.npos) return false;
      body.remove_prefix(end + mark.size());
      continue;
    }
    const std::size_t close = body.find('>');
    if (close == body.npos || body.starts_with("<!")) return false;  // no DOCTYPE, no CDATA
    std::string_view tag = body.substr(1, close - 1);
    body.remove_prefix(close + 1);
    if (tag.starts_with('/')) {
      tag.remove_prefix(1);
      while (!tag.empty() && is_space(tag.back())) tag.remove_suffix(1);
      if (path.empty() || local(tag) != path.back()) return false;
      if (is_leaf) {
        auto value = unescaped(raw);
        if (!value) return false;
        leaf(path, std::move(*value));
      }
      path.pop_back();
      is_leaf = false;
      continue;
    }
    const bool is_empty = tag.ends_with('/');
    if (is_empty) tag.remove_suffix(1);
    const std::string_view name = local(tag.substr(0, std::min(tag.find_first_of(" \t\r\n"), tag.size())));
    if (name.empty() || path.size() == kDepth || (path.empty() && seen_root)) return false;
    seen_root = true;
    path.push_back(name);
    is_leaf = !is_empty;
    if (is_empty) {
      leaf(path, {});
      path.pop_back();
    }
  }
  return seen_root && path.empty();
}

ErrorBody parse_error(std::string_view body) {
  ErrorBody found;
  const bool is_whole = walk_xml(body, [&](std::span<const std::string_view> path, std::string value) {
    if (path.size() < 2 || path.size() > 3) return;  // <Error>, or <ErrorResponse><Error> of STS
    if (path.back() == "Code") found.code = word(value, 60);
    if (path.back() == "Message") found.message = one_line(value, 200);
    if (path.back() == "Region") found.region = word(value, 40);
    if (path.back() == "Endpoint") found.endpoint = one_line(without_secrets(value), 200);
  });
  return is_whole ? found : ErrorBody();
}

std::optional<http::ListingPage> parse_listing(std::string_view prefix, std::string_view body) {
  http::ListingPage page;
  bool is_listing = false, is_cut = false;
  const auto add = [&](std::string_view key, bool is_directory) {
    if (!key.starts_with(prefix)) return;
    key.remove_prefix(prefix.size());
    if (is_directory && key.ends_with('/')) key.remove_suffix(1);
    if (key.empty() || key.find('/') != key.npos || key.find('\0') != key.npos) return;
    page.entries.push_back({std::string(key), is_directory});
  };
  const bool is_whole = walk_xml(body, [&](std::span<const std::string_view> path, std::string value) {
    if (path.size() < 2 || path[0] != "ListBucketResult") return;
    is_listing = true;
    if (path.size() == 3 && path[1] == "Contents" && path[2] == "Key") add(value, false);
    if (path.size() == 3 && path[1] == "CommonPrefixes" && path[2] == "Prefix") add(value, true);
    if (path.size() == 2 && path[1] == "IsTruncated") is_cut = value == "true";
    if (path.size() == 2 && path[1] == "NextContinuationToken") page.next = std::move(value);
  });
  if (!is_whole || !is_listing || (is_cut && page.next.empty())) return std::nullopt;
  if (!is_cut) page.next.clear();
  return page;
}

}  // namespace damacy::s3
