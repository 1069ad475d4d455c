#include "damacy/store/http/version.h"

#include <string_view>

#include "damacy/core/formatted.h"
#include "damacy/store/http/times.h"

namespace damacy::http {
namespace {

constexpr std::int64_t kSettledSeconds = 60;  // RFC 7232, 2.2.2

std::uint64_t hash_of(std::string_view text, std::uint64_t seed) {  // FNV-1a
  std::uint64_t hash = 14695981039346656037u ^ seed;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

}  // namespace

Version version_in(const Head& head, std::uint64_t size) {
  Version version{head.tag, head.modified, size};
  if (!version.tag.empty()) return version;
  const std::int64_t answered = parse_http_date(head.date).value_or(unix_now());
  version.is_settled = answered - parse_http_date(head.modified).value_or(answered) >= kSettledSeconds;
  return version;
}

std::string Version::condition() const {
  if (tag.empty() && modified.empty()) return {};
  return tag.empty() ? formatted("If-Unmodified-Since: {}", modified) : formatted("If-Match: {}", tag);
}

bool Version::is_changed(const Head& head) const {
  const bool is_body = head.status == 200 || head.status == 206;
  const bool has_total = (is_body || head.status == 416) && head.range && head.range->total;
  return (has_total && *head.range->total != size) || (is_body && !is_of(head));
}

Stamp Version::stamp() const {
  const std::string all = formatted("{}\n{}", tag, tag.empty() ? modified : std::string());
  return {hash_of(all, 0), hash_of(all, 0x9e3779b97f4a7c15u), size, 0};
}

}  // namespace damacy::http
