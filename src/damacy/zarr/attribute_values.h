// What attributes of an array say: names of its dimensions, how elements are packed, and which of them are missing.
// Values only; knows no documents.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "damacy/core/dtype.h"

namespace damacy {

using DimensionNames = std::vector<std::optional<std::string>>;

// size_of(dtype) bytes in the machine's order, the rest zero.
using FillBytes = std::array<std::byte, 16>;

// Of the Climate and Forecast conventions.
struct CfAttributes {
  std::optional<double> scale_factor;  // finite, not 0
  std::optional<double> add_offset;    // finite
  std::optional<bool> is_unsigned;     // `_Unsigned`, on integers only
  // Elements that are missing, of `missing_type`: the stored type, or the integer type that `_Unsigned` makes of it.
  std::vector<FillBytes> missing;
  Dtype missing_type = Dtype::u8;

  bool empty() const noexcept { return !scale_factor && !add_offset && !is_unsigned && missing.empty(); }
};

}  // namespace damacy
