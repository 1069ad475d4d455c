// Defines masked_text() of store_options.h, too.
#include "damacy/store/store_fields.h"

#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy {
namespace {

template <class Value>
bool is_default(const Value& value, const Value& usual) {
  return value == usual;
}
bool is_default(const std::function<Credentials()>& value, const std::function<Credentials()>&) {
  return value == nullptr;
}

// Values as Python shows them.
std::string shown_text(const std::string& value, Shown shown) {
  switch (shown) {
    case Shown::value:
      return formatted("'{}'", one_line(value, 200));
    case Shown::url:
      return formatted("'{}'", without_secrets(value));
    case Shown::key_id:
      return formatted("'***{}'", value.size() >= 16 ? value.substr(value.size() - 4) : "");
    case Shown::nothing:
      break;
  }
  return "'***'";
}
std::string shown_text(bool value, Shown) {
  return value ? "True" : "False";
}
template <class Number>
  requires std::is_arithmetic_v<Number>
std::string shown_text(Number value, Shown) {
  return formatted("{}", value);
}
template <class Value>
std::string shown_text(const std::optional<Value>& value, Shown shown) {
  return value ? shown_text(*value, shown) : "None";
}
std::string shown_text(const std::function<Credentials()>&, Shown) {
  return "...";
}
std::string shown_text(const std::pair<std::string, std::string>& header, Shown) {  // the value is a secret
  return formatted("('{}', '***')", one_line(header.first, 60));
}
template <class Value>
std::string shown_text(const std::vector<Value>& values, Shown shown) {
  std::string out;
  for (const Value& value : values) out += formatted("{}{}", out.empty() ? "" : ", ", shown_text(value, shown));
  return formatted("({}{})", out, values.size() == 1 ? "," : "");
}

}  // namespace

std::string masked_text(const StoreOptions& options) {
  const StoreOptions usual;
  std::string out;
  for_store_fields([&](const auto& field) {
    const auto& value = options.*field.member;
    if (is_default(value, usual.*field.member)) return;
    out += formatted("{}{}={}", out.empty() ? "" : ", ", field.name, shown_text(value, field.shown));
  });
  return formatted("StoreOptions({})", out);
}

}  // namespace damacy
