// A JSON text as a series of events, for texts of any size: the stack is bounded. Numbers stay text, so that each user
// converts them exactly. Knows the grammar; does not know what members mean, and no limits. Only this unit includes
// RapidJSON.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace damacy {

// What a text has, in its order. Each function returns false to end the reading. Views are valid during the call.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual bool null() = 0;
  virtual bool boolean(bool truth) = 0;
  virtual bool number(std::string_view text) = 0;       // also the bare words NaN, Infinity and -Infinity
  virtual bool string(std::string_view unescaped) = 0;  // valid UTF-8, unless has_lone_surrogate()
  virtual bool name(std::string_view unescaped) = 0;    // of the member whose value comes next
  virtual bool begin_object(std::size_t at) = 0;        // `at`: the byte of the bracket
  virtual bool end_object(std::size_t at) = 0;
  virtual bool begin_array(std::size_t at) = 0;
  virtual bool end_array(std::size_t at) = 0;
};

// Whether the whole text was read; false: an event ended it. Throws Error(decode, "json").
[[nodiscard]] bool read_json(std::string_view text, JsonEvents& events);

// RapidJSON accepts one that is escaped.
[[nodiscard]] bool has_lone_surrogate(std::string_view string) noexcept;

// `name` as one token of a JSON pointer (RFC 6901), with its leading '/'.
[[nodiscard]] std::string pointer_token(std::string_view name);

}  // namespace damacy
