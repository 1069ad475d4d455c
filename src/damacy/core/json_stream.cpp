#include "damacy/core/json_stream.h"

namespace damacy {
namespace {
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
}  // namespace

std::size_t NumberHidingStream::digits(std::size_t from) const {
  std::size_t at = from;
  while (at < text_.size() && is_digit(text_[at])) ++at;
  return at - from;
}

std::size_t NumberHidingStream::number_length(std::size_t from) const {
  const auto rest = text_.substr(from);
  for (const std::string_view word : {"NaN", "Infinity", "-Infinity"})
    if (rest.starts_with(word)) return word.size();
  std::size_t at = from;
  if (text_[at] == '-') ++at;
  const auto whole = at < text_.size() && text_[at] == '0' ? std::size_t{1} : digits(at);
  if (whole == 0) return 0;
  at += whole;
  if (at < text_.size() && text_[at] == '.') {
    const auto fraction = digits(at + 1);
    if (fraction == 0) return 0;
    at += 1 + fraction;
  }
  if (at < text_.size() && (text_[at] == 'e' || text_[at] == 'E')) {
    ++at;
    if (at < text_.size() && (text_[at] == '+' || text_[at] == '-')) ++at;
    const auto exponent = digits(at);
    if (exponent == 0) return 0;
    at += exponent;
  }
  return at - from;
}

void NumberHidingStream::look_for_number() {
  if (at_ == text_.size()) return;
  const char next = text_[at_];
  if (!is_digit(next) && next != '-' && next != 'N' && next != 'I') return;
  const auto length = number_length(at_);
  shown_ = length == 0 ? kBad : '0';
  number_ = text_.substr(at_, length);
}

}  // namespace damacy
