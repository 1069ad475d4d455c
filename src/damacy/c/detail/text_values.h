// Values of settings as text, for a language without their types: "true", "0.5", "1,2,3". Knows texts; not what a
// setting means.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "damacy/batch/fields.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy::detail {

// A setting's value that is being read. Throws Error(inval, "arguments"), which names the setting and what it may be.
class TextValue {
 public:
  TextValue(std::string_view name, std::string_view text) : name_(name), text_(text) {}

  void to(std::string& value) const { value = text_; }
  void to(bool& value) const {
    if (text_ != "true" && text_ != "false") refuse("true or false");
    value = text_ == "true";
  }
  template <class Value>
    requires std::is_arithmetic_v<Value>
  void to(Value& value) const {
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (error != std::errc() || end != text_.data() + text_.size())
      refuse(std::is_integral_v<Value> ? "an integer" : "a number");
  }
  template <class Value>
  void to(std::optional<Value>& value) const {
    to(value.emplace());
  }
  // The pieces between commas. An empty text has none.
  template <class Value>
  void to(std::vector<Value>& values) const {
    values.clear();
    for (std::string_view rest = text_; !text_.empty();) {
      const std::size_t end = rest.find(',');
      TextValue(name_, rest.substr(0, end)).to(values.emplace_back());
      if (end == std::string_view::npos) return;
      rest.remove_prefix(end + 1);
    }
  }
  // HEADER: VALUE; each call adds one.
  void to(std::vector<std::pair<std::string, std::string>>& headers) const {
    const std::size_t colon = text_.find(':');
    if (colon == std::string_view::npos) throw Error(Status::inval, formatted("{}: expected NAME: VALUE", name_), kHow);
    const std::size_t begin = text_.find_first_not_of(' ', colon + 1);
    headers.emplace_back(text_.substr(0, colon),
                         begin == std::string_view::npos ? std::string_view() : text_.substr(begin));
  }

  void to(Number& value) const {
    std::int64_t integer = 0;
    std::uint64_t natural = 0;
    if (reads(integer))
      value = integer;
    else if (reads(natural))
      value = natural;
    else
      to(value.emplace<double>());
  }
  void to(ChannelNumbers& value) const {
    std::vector<double> each;
    to(each);
    if (each.empty()) refuse("a number, or one for each channel");
    value = text_.find(',') == std::string_view::npos ? ChannelNumbers(each.front()) : ChannelNumbers(std::move(each));
  }
  void to(Dtype& value) const {
    for (int code = 0; code < kBatchDtypes; ++code)
      if (name_of(static_cast<Dtype>(code)) == text_) return static_cast<void>(value = static_cast<Dtype>(code));
    refuse("a dtype such as float32");
  }
  void to(Rounding& value) const { value = find_named(kRoundings, text_, name_); }
  void to(AxisKey& value) const {
    value = {};
    if (!reads(value.place)) value.name = text_;
  }
  // Of an order: an empty piece is a new axis.
  void to(std::optional<AxisKey>& value) const {
    value.reset();
    if (!text_.empty()) to(value.emplace());
  }
  // A border or a number for all axes; or AXIS=BORDER for each.
  void to(std::vector<Pad>& pads) const {
    pads.clear();
    std::vector<std::string> each;
    to(each);
    for (const std::string& one : each) {
      Pad& pad = pads.emplace_back();
      const std::size_t equals = one.find('=');
      if (equals != std::string::npos) TextValue(name_, std::string_view(one).substr(0, equals)).to(pad.axis.emplace());
      const TextValue border(name_, std::string_view(one).substr(equals == std::string::npos ? 0 : equals + 1));
      double number = 0;
      if (border.reads(number)) {
        pad.border = Border::constant;
        border.to(pad.value);
      } else {
        pad.border = find_named(kBorders, border.text_, "border");
      }
    }
  }

 private:
  static constexpr const char* kHow = "arguments";

  template <class Value>
  bool reads(Value& value) const {
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    return error == std::errc() && end == text_.data() + text_.size();
  }
  [[noreturn]] void refuse(std::string_view expected) const {
    throw Error(Status::inval, formatted("{}: expected {} (got \"{}\")", name_, expected, text_), kHow);
  }

  const std::string_view name_, text_;
};

}  // namespace damacy::detail
