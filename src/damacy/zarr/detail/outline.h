// The known parts of the document of an unsupported array. Refuses nothing; ignores what it does not understand.
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
