// Attributes of the Climate and Forecast conventions that describe packed and missing elements. Parses them; does not
// apply them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "damacy/core/dtype.h"
#include "damacy/zarr/array_info.h"
#include "damacy/zarr/json.h"

namespace damacy {

inline constexpr std::size_t kMissingValues = 16;

// `attributes` is an object. `fill`: a fill value that counts as `_FillValue`, in whose place it stands (v2).
// Throws Error(decode, "cf") with the pointer of an attribute that cannot be used. Values that the type does not hold
// match no element and are left out.
[[nodiscard]] CfAttributes parse_cf(const json::Value& attributes, Dtype stored, int zarr_format,
                                    const std::optional<FillBytes>& fill);

// "scale_factor 0.0017 and add_offset 273", "" where there is neither: for people, never throws.
[[nodiscard]] std::string packing_text(const json::Value& attributes);

// The member of that name, the last one where it occurs twice.
[[nodiscard]] std::optional<json::Value> attribute(const json::Value& attributes, std::string_view name);

}  // namespace damacy
