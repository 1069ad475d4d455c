#include "damacy/core/json_events.h"

// RapidJSON's stack begins as a null pointer and is compared with null plus a size, which clang's sanitizer stops at.
#ifdef __clang__
#pragma clang attribute push(__attribute__((no_sanitize("pointer-overflow"))), apply_to = function)
#endif
#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>
#ifdef __clang__
#pragma clang attribute pop
#endif

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/json_stream.h"

namespace damacy {
namespace {

// RapidJSON's concept of a handler.
class Handler {
 public:
  Handler(const NumberHidingStream& stream, JsonEvents& events) : stream_(stream), events_(events) {}

  bool Null() { return passed(events_.null()); }
  bool Bool(bool truth) { return passed(events_.boolean(truth)); }
  bool RawNumber(const char*, rapidjson::SizeType, bool) { return passed(events_.number(stream_.number())); }
  bool String(const char* characters, rapidjson::SizeType bytes, bool) {
    return passed(events_.string({characters, bytes}));
  }
  bool Key(const char* characters, rapidjson::SizeType bytes, bool) {
    return passed(events_.name({characters, bytes}));
  }
  bool StartObject() { return passed(events_.begin_object(stream_.Tell())); }
  bool EndObject(rapidjson::SizeType) { return passed(events_.end_object(stream_.Tell())); }
  bool StartArray() { return passed(events_.begin_array(stream_.Tell())); }
  bool EndArray(rapidjson::SizeType) { return passed(events_.end_array(stream_.Tell())); }
  // Numbers come as text.
  bool Int(int) { return false; }
  bool Uint(unsigned) { return false; }
  bool Int64(std::int64_t) { return false; }
  bool Uint64(std::uint64_t) { return false; }
  bool Double(double) { return false; }

  bool is_ended() const noexcept { return ended_; }

 private:
  bool passed(bool goes_on) {
    ended_ = !goes_on;
    return goes_on;
  }

  const NumberHidingStream& stream_;
  JsonEvents& events_;
  bool ended_ = false;
};

bool is_in_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_in_string(rapidjson::ParseErrorCode code) {
  return code >= rapidjson::kParseErrorStringUnicodeEscapeInvalidHex &&
         code <= rapidjson::kParseErrorStringInvalidEncoding;
}

// "byte 15: nan, 2", with the whole of a word that RapidJSON stopped in. Nothing of urls, which may hold secrets.
std::string shown_at(std::string_view text, const rapidjson::ParseResult& result) {
  constexpr std::size_t kShownBytes = 32;
  std::size_t at = result.Offset();
  if (is_in_string(result.Code())) return formatted("byte {}", at);
  if (at >= text.size()) return formatted("byte {}: the end", at);
  while (at > 0 && is_in_word(text[at]) && is_in_word(text[at - 1])) --at;
  const auto rest = text.substr(at, kShownBytes);
  return formatted("byte {}: {}", at, one_line(rest.substr(0, rest.find("://")), 4 * kShownBytes));
}

Error not_json(std::string_view why) {
  return Error(Status::decode, formatted("not JSON: {}", why), "json");
}

}  // namespace

bool read_json(std::string_view text, JsonEvents& events) {
  if (text.empty()) throw not_json("the document is empty");
  if (text.starts_with("\xef\xbb\xbf")) throw not_json("the document begins with a byte-order mark");
  if (text.find('\0') != text.npos) throw not_json("the document holds a NUL byte");
  NumberHidingStream stream(text);
  Handler handler(stream, events);
  rapidjson::Reader reader;
  constexpr unsigned kFlags =
      rapidjson::kParseIterativeFlag | rapidjson::kParseNumbersAsStringsFlag | rapidjson::kParseValidateEncodingFlag;
  const auto result = reader.Parse<kFlags>(stream, handler);
  if (handler.is_ended()) return false;
  if (result.IsError())
    throw not_json(formatted("{} ({})", rapidjson::GetParseError_En(result.Code()), shown_at(text, result)));
  return true;
}

bool has_lone_surrogate(std::string_view string) noexcept {
  for (auto at = string.find('\xed'); at != string.npos; at = string.find('\xed', at + 1))
    if (at + 1 < string.size() && static_cast<unsigned char>(string[at + 1]) >= 0xa0) return true;
  return false;
}

std::string pointer_token(std::string_view name) {
  std::string token = "/";
  for (const char c : name) {
    if (c == '~')
      token += "~0";
    else if (c == '/')
      token += "~1";
    else
      token += c;
  }
  return token;
}

}  // namespace damacy
