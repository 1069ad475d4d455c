#include "damacy/core/size_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

#include "damacy/core/formatted.h"

namespace damacy {
namespace {

constexpr std::array kUnits{"KiB", "MiB", "GiB", "TiB"};

std::string with_one_decimal(double value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.begin(), digits.end(), value, std::chars_format::fixed, 1).ptr;
  return {digits.begin(), end};
}

}  // namespace

std::string size_text(double bytes) {
  if (bytes < 1024) return formatted("{} B", std::llround(bytes));
  for (std::size_t unit = 0;; ++unit) {
    bytes /= 1024;
    if (bytes < 1023.95 || unit + 1 == kUnits.size())  // else the text would be 1024.0
      return formatted("{} {}", with_one_decimal(bytes), kUnits[unit]);
  }
}

}  // namespace damacy
