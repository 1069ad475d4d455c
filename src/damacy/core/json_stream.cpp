#include "damacy/core/json_stream.h"

namespace damacy {
namespace {
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
std::size_t digits(std::string_view text, std::size_t from) {
  std::size_t at = from;
  while (at < text.size() && is_digit(text[at])) ++at;
  return at - from;
}

std::size_t word_length(std::string_view text) {
  for (const std::string_view word : {"NaN", "Infinity", "-Infinity"})
    if (text.starts_with(word)) return word.size();
  return 0;
}
}  // namespace

std::size_t number_length(std::string_view text) noexcept {
  std::size_t at = text.starts_with('-') ? 1 : 0;
  const auto whole = at < text.size() && text[at] == '0' ? std::size_t{1} : digits(text, at);
  if (whole == 0) return 0;
  at += whole;
  if (at < text.size() && text[at] == '.') {
    const auto fraction = digits(text, at + 1);
    if (fraction == 0) return 0;
    at += 1 + fraction;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    const auto exponent = digits(text, at);
    if (exponent == 0) return 0;
    at += exponent;
  }
  return at;
}

void NumberHidingStream::look_for_number() {
  if (at_ == text_.size()) return;
  const char next = text_[at_];
  if (!is_digit(next) && next != '-' && next != 'N' && next != 'I') return;
  const auto rest = text_.substr(at_);
  const auto word = word_length(rest);
  const auto length = word != 0 ? word : number_length(rest);
  shown_ = length == 0 ? kBad : '0';
  number_ = text_.substr(at_, length);
}

}  // namespace damacy
