#include "damacy/store/s3/sigv4.h"

#include <algorithm>
#include <chrono>

#include "damacy/core/formatted.h"
#include "damacy/core/sha256.h"
#include "damacy/core/text.h"

namespace damacy::s3 {
namespace {

// Without the white space around it, and with one space for each run of them inside.
std::string one_spaced(std::string_view value) {
  std::string out;
  for (const char c : trimmed(value)) {
    const bool is_space = c == ' ' || c == '\t';
    if (!is_space)
      out += c;
    else if (!out.ends_with(' '))
      out += ' ';
  }
  return out;
}

}  // namespace

std::string amz_date(std::int64_t unix_s) {
  using std::chrono::days;
  const std::chrono::sys_seconds time{std::chrono::seconds(unix_s)};
  const auto midnight = std::chrono::floor<days>(time);
  const std::chrono::year_month_day day(midnight);
  const std::chrono::hh_mm_ss clock(time - midnight);
  const auto two = [](auto number) { return formatted("{}{}", number < 10 ? "0" : "", static_cast<int>(number)); };
  const auto month = static_cast<unsigned>(day.month()), day_of_month = static_cast<unsigned>(day.day());
  return formatted("{}{}{}T{}{}{}Z", static_cast<int>(day.year()), two(month), two(day_of_month),
                   two(clock.hours().count()), two(clock.minutes().count()), two(clock.seconds().count()));
}

std::string percent_encoded(std::string_view raw, bool keep_slash) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : raw) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (is_letter || c == '-' || c == '.' || c == '_' || c == '~' || (c == '/' && keep_slash))
      out += c;
    else
      out += {'%', kHex[byte >> 4], kHex[byte & 15]};
  }
  return out;
}

std::string query_text(Fields parameters) {
  for (auto& [name, value] : parameters) {
    name = percent_encoded(name, false);
    value = percent_encoded(value, false);
  }
  std::sort(parameters.begin(), parameters.end());
  std::string out;
  for (const auto& [name, value] : parameters) out += formatted("{}{}={}", out.empty() ? "" : "&", name, value);
  return out;
}

std::string authorization(const ToSign& request, const Keys& keys, const Scope& scope) {
  Fields headers = request.headers;
  std::sort(headers.begin(), headers.end());
  std::string names, lines;
  for (const auto& [name, value] : headers) {
    names += formatted("{}{}", names.empty() ? "" : ";", name);
    lines += formatted("{}:{}\n", name, one_spaced(value));
  }
  const std::string canonical = formatted("{}\n{}\n{}\n{}\n{}\n{}", request.method, request.path, request.query, lines,
                                          names, request.body_sha256);

  const std::string date = amz_date(scope.unix_s);
  const std::string day = date.substr(0, 8);
  const std::string scope_text = formatted("{}/{}/{}/aws4_request", day, scope.region, scope.service);
  const std::string to_sign = formatted("AWS4-HMAC-SHA256\n{}\n{}\n{}", date, scope_text, hex(sha256(canonical)));

  Sha256 key = hmac_sha256("AWS4" + keys.secret_access_key, day);
  key = hmac_sha256(bytes_of(key), scope.region);
  key = hmac_sha256(bytes_of(key), scope.service);
  key = hmac_sha256(bytes_of(key), "aws4_request");
  return formatted("AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, Signature={}", keys.access_key_id, scope_text,
                   names, hex(hmac_sha256(bytes_of(key), to_sign)));
}

}  // namespace damacy::s3
