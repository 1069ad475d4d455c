// Metadata that reads do not use: dimension names and CF packing, for users and samplers. Pure: text in, values out.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "damacy/core/dtype.h"
#include "damacy/zarr/attribute_values.h"

namespace damacy {

struct ArrayAttributes {
  DimensionNames dims;             // one an axis; empty: none are named
  std::optional<CfAttributes> cf;  // empty: nothing of it, or `cf_problem`
  std::string cf_problem;          // why attributes of CF cannot be used
};

// What the elements are, as far as it is known.
struct ElementFacts {
  std::size_t rank = 0;
  std::optional<Dtype> dtype;     // empty: of a type that is not supported
  std::optional<FillBytes> fill;  // of v2, where it is not null: a missing value
};

// `document`: zarr.json of an array; `attributes`: .zattrs, or empty. Limits of documents apply, except to numbers and
// strings inside attributes. Throw Error(decode) if it is not JSON, and Error(inval, "limit").
[[nodiscard]] ArrayAttributes parse_v3_attributes(std::string_view document, const ElementFacts& facts);
[[nodiscard]] ArrayAttributes parse_v2_attributes(std::string_view attributes, const ElementFacts& facts);

}  // namespace damacy
