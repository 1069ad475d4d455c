// formatted("read {} of {} bytes", got, wanted): an error message as one sentence in one literal, so that a search for
// its words finds it; also keys, names and addresses. Knows the placeholder {} and strings, characters, booleans,
// integers and floats; no widths, no precision. The number of placeholders is checked when this is compiled.
#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "damacy/core/host_device_macro.h"

namespace damacy {
namespace detail {

inline void append_text(std::string& out, std::string_view part) {
  out += part;
}
inline void append_text(std::string& out, char part) {
  out += part;
}
inline void append_text(std::string& out, std::same_as<bool> auto part) {
  out += part ? "true" : "false";
}

template <class T>
  requires((std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char>) || std::floating_point<T>)
void append_text(std::string& out, T part) {
  char digits[64];
  const auto end = std::to_chars(digits, digits + sizeof digits, part);
  out.append(digits, end.ptr);
}

// Where the next {} of `format` begins, or npos. {{ and }} stand for one brace each.
constexpr std::size_t next_placeholder(std::string_view format) {
  for (std::size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '{' && format[at] != '}') continue;
    if (format.substr(at, 2) == "{}") return at;
    if (at + 1 == format.size() || format[at] != format[at + 1]) throw std::logic_error("a lone brace in a format");
    ++at;
  }
  return std::string_view::npos;
}

constexpr std::size_t count_placeholders(std::string_view format) {
  std::size_t count = 0;
  for (std::size_t at; (at = next_placeholder(format)) != std::string_view::npos; ++count) format.remove_prefix(at + 2);
  return count;
}

inline void append_literal(std::string& out, std::string_view literal) {
  for (std::size_t at = 0; at < literal.size(); ++at) {
    out += literal[at];
    if (literal[at] == '{' || literal[at] == '}') ++at;  // of a pair
  }
}

template <class Part>
void append_part(std::string& out, std::string_view& format, const Part& part) {
  const std::size_t at = next_placeholder(format);
  append_literal(out, format.substr(0, at));
  append_text(out, part);
  format.remove_prefix(at + 2);
}

// A literal with one placeholder for each part; anything else does not compile.
template <class... Parts>
class Format {
 public:
  template <std::size_t N>
  DAMACY_CONSTEVAL Format(const char (&literal)[N])  // NOLINT(google-explicit-constructor): callers pass literals
      : literal_(literal, N - 1) {
    if (count_placeholders(literal_) != sizeof...(Parts)) throw std::logic_error("placeholders and values differ");
  }
  std::string_view literal() const noexcept { return literal_; }

 private:
  std::string_view literal_;
};

}  // namespace detail

template <class... Parts>
[[nodiscard]] std::string formatted(detail::Format<std::type_identity_t<Parts>...> format, const Parts&... parts) {
  std::string out;
  std::string_view rest = format.literal();
  (detail::append_part(out, rest, parts), ...);
  detail::append_literal(out, rest);
  return out;
}

}  // namespace damacy
