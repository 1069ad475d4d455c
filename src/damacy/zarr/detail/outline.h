// What can be told of an array document although the array is not supported. Refuses nothing: what it does not
// understand it leaves out.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "damacy/core/dims.h"

namespace damacy {

struct Outline {
  Dims shape;
  std::string dtype;
  Dims chunks;
  std::optional<Dims> shards;
  std::vector<std::string> codecs;
};

[[nodiscard]] Outline outline_v3(std::string_view document);
[[nodiscard]] Outline outline_v2(std::string_view document);

}  // namespace damacy
