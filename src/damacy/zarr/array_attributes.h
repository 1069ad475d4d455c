// Metadata that reads do not use: dimension names and CF packing, for users and samplers. Pure: text in, values out.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "damacy/core/dtype.h"
#include "damacy/core/error.h"
#include "damacy/zarr/array_info.h"

namespace damacy {

struct ArrayAttributes {
  DimensionNames dims;             // one an axis; empty: none are named
  DimensionNames axis_types;       // of an NGFF image's axes, one an axis; empty: unknown
  std::optional<CfAttributes> cf;  // empty: nothing of it, or `cf_error`
  std::optional<Error> cf_error;   // Error(decode, "cf") with the pointer: attributes of CF that cannot be used

  // The packing, with neutral values if there is none. Throws `cf_error`.
  [[nodiscard]] CfAttributes usable_cf() const;
  // The NGFF axis of type "channel", else the axis named c, channel, band or variable; empty: there is none.
  [[nodiscard]] std::optional<std::size_t> channel_axis() const;
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
