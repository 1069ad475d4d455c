#include "damacy/zarr/detail/extension.h"

#include <algorithm>

#include "damacy/core/formatted.h"

namespace damacy {

using json::Kind;
using json::Value;

void Extension::allow(std::initializer_list<std::string_view> keys, std::string_view reason) const {
  if (!configuration) return;
  for (const Value option : *configuration)
    if (std::find(keys.begin(), keys.end(), option.name()) == keys.end())
      throw option.unsupported(formatted("option '{}' of '{}' is not supported", option.name(), name),
                               std::string(reason));
}

std::optional<Value> Extension::option(std::string_view key) const {
  return configuration ? configuration->find(key) : std::nullopt;
}

Value Extension::required(std::string_view key) const {
  if (configuration) return configuration->at(key);
  throw Error(Status::decode, formatted("member '{}' is missing", key), "metadata")
      .at_pointer(value.pointer() + "/configuration" + pointer_token(key));
}

Extension parse_extension(const Value& value, std::string_view reason) {
  if (value.is(Kind::string)) return {value, value.text(), std::nullopt};
  Extension extension{value, value.at("name").expect(Kind::string).text(), value.find("configuration")};
  if (extension.configuration) extension.configuration->expect(Kind::object);
  for (const Value member : value) {
    if (member.name() == "must_understand")
      member.expect(Kind::boolean);
    else if (member.name() != "name" && member.name() != "configuration")
      throw member.unsupported(formatted("member '{}' of '{}' is not supported", member.name(), extension.name),
                               std::string(reason));
  }
  return extension;
}

}  // namespace damacy
