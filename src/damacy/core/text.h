// text(...): joins values into one std::string, for error messages.
// Knows strings, characters, integers and floats; nothing else needs a message.
// trimmed(): a text without the white space around it.
#pragma once

#include <charconv>
#include <concepts>
#include <string>
#include <string_view>

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

}  // namespace detail

template <class... Parts>
[[nodiscard]] std::string text(const Parts&... parts) {
  std::string out;
  (detail::append_text(out, parts), ...);
  return out;
}

// The white space of isspace() in the C locale.
[[nodiscard]] constexpr std::string_view trimmed(std::string_view text) noexcept {
  constexpr std::string_view kSpaces = " \t\n\v\f\r";
  const std::size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

}  // namespace damacy
