// v3's extension values: a name as a string, or an object with `name`, `configuration` and `must_understand`. Parses
// that form and refuses unknown members; does not know any extension.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "damacy/zarr/json.h"

namespace damacy {

struct Extension {
  json::Value value;
  std::string_view name;
  std::optional<json::Value> configuration;

  // Throws Error::unsupported(`reason`) at a configuration key that is not in `keys`.
  void allow(std::initializer_list<std::string_view> keys, std::string_view reason) const;
  std::optional<json::Value> option(std::string_view key) const;
  json::Value required(std::string_view key) const;  // Error(decode, "metadata") when it is missing
};

// `reason`: the reason code of errors about unknown members.
[[nodiscard]] Extension parse_extension(const json::Value& value, std::string_view reason);

}  // namespace damacy
