#include "damacy/store/http/times.h"

#include <algorithm>
#include <array>
#include <chrono>

namespace damacy::http {
namespace {

// `count` digits at `at`.
std::optional<int> digits(std::string_view value, std::size_t at, std::size_t count) {
  int number = 0;
  if (value.size() < at + count) return std::nullopt;
  for (const char c : value.substr(at, count)) {
    if (c < '0' || c > '9') return std::nullopt;
    number = number * 10 + (c - '0');
  }
  return number;
}

std::optional<std::int64_t> seconds_of(std::optional<int> year, std::optional<int> month, std::optional<int> day,
                                       std::string_view clock) {
  const auto hour = digits(clock, 0, 2), minute = digits(clock, 3, 2), second = digits(clock, 6, 2);
  if (!year || !month || !day || !hour || !minute || !second || clock[2] != ':' || clock[5] != ':') return std::nullopt;
  const std::chrono::year_month_day date(std::chrono::year(*year), std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day)));
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  const auto days = std::chrono::sys_days(date).time_since_epoch().count();
  return std::int64_t{days} * 86'400 + *hour * 3600 + *minute * 60 + *second;
}

}  // namespace

std::optional<std::int64_t> parse_time(std::string_view value) {
  if (value.size() < 20 || value[4] != '-' || value[7] != '-' || value[10] != 'T') return std::nullopt;
  if (value.back() != 'Z' && !value.ends_with("+00:00")) return std::nullopt;
  return seconds_of(digits(value, 0, 4), digits(value, 5, 2), digits(value, 8, 2), value.substr(11));
}

std::optional<std::int64_t> parse_http_date(std::string_view value) {
  constexpr std::array<std::string_view, 12> kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  if (value.size() != 29 || !value.ends_with(" GMT")) return std::nullopt;
  const auto month = std::find(kMonths.begin(), kMonths.end(), value.substr(8, 3));
  if (month == kMonths.end()) return std::nullopt;
  return seconds_of(digits(value, 12, 4), static_cast<int>(month - kMonths.begin()) + 1, digits(value, 5, 2),
                    value.substr(17));
}

std::int64_t unix_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace damacy::http
