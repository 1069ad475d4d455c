// trimmed(): a text without the white space around it.
#pragma once

#include <cstddef>
#include <string_view>

namespace damacy {

// The white space of isspace() in the C locale.
[[nodiscard]] constexpr std::string_view trimmed(std::string_view text) noexcept {
  constexpr std::string_view kSpaces = " \t\n\v\f\r";
  const std::size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

}  // namespace damacy
