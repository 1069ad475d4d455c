// The input stream for RapidJSON: replaces every number, and every bare NaN or Infinity, by a single 0 and keeps its
// text. RapidJSON computes numbers even if only their text is wanted, and so refuses legal ones (1e400). Knows where
// strings begin and end, and RFC 8259's grammar of numbers; nothing else.
#pragma once

#include <cstddef>
#include <string_view>

namespace damacy {

class NumberHidingStream {
 public:
  using Ch = char;
  explicit NumberHidingStream(std::string_view text) : text_(text) { look_for_number(); }

  char Peek() const { return shown_ != '\0' ? shown_ : at_ == text_.size() ? '\0' : text_[at_]; }
  char Take() {
    if (shown_ != '\0') return take_number();
    if (at_ == text_.size()) return '\0';
    const char taken = text_[at_++];
    follow_string(taken);
    if (!in_string_) look_for_number();
    return taken;
  }
  std::size_t Tell() const { return at_; }

  // RapidJSON's concept of a stream asks for these; they are for writing in place.
  char* PutBegin() { return nullptr; }
  void Put(char) {}
  void Flush() {}
  std::size_t PutEnd(char*) { return 0; }

  std::string_view number() const noexcept { return number_; }  // the one taken last

 private:
  static constexpr char kBad = '\x01';  // legal nowhere

  void follow_string(char taken) {
    if (escaped_)
      escaped_ = false;
    else if (in_string_ && taken == '\\')
      escaped_ = true;
    else if (taken == '"')
      in_string_ = !in_string_;
  }
  char take_number() {
    const char taken = shown_;
    shown_ = '\0';
    at_ += number_.size();
    if (taken != kBad) look_for_number();  // "12" and then "3": RapidJSON sees 00, which is no number either
    return taken;
  }
  void look_for_number();

  std::string_view text_;
  std::size_t at_ = 0;
  bool in_string_ = false, escaped_ = false;
  char shown_ = '\0';
  std::string_view number_;
};

// Of the number that `text` begins with; 0: none. The bare words are no numbers here.
[[nodiscard]] std::size_t number_length(std::string_view text) noexcept;

}  // namespace damacy
