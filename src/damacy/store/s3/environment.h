// Variables of the environment that say how S3 is reached, read when a bucket is first used. Knows names and values;
// not what they mean together.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace damacy::s3 {

// Empty: not set, or set to nothing.
[[nodiscard]] inline std::optional<std::string> environment(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

[[nodiscard]] inline bool is_set_true(const char* name) {
  const auto value = environment(name);
  return value && (*value == "true" || *value == "True" || *value == "TRUE" || *value == "1" || *value == "yes");
}

}  // namespace damacy::s3
