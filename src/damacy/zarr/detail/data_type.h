// Data types as v3 and v2 documents name them. Refuses every type that docs/formats.md does not list.
#pragma once

#include <string>

#include "damacy/core/dtype.h"
#include "damacy/zarr/json.h"

namespace damacy {

[[nodiscard]] Dtype parse_v3_data_type(const json::Value& data_type);

struct V2Dtype {
  Dtype dtype = Dtype::u8;
  bool big_endian = false;
};
[[nodiscard]] V2Dtype parse_v2_dtype(const json::Value& dtype);

// The name for messages, also of unsupported types; "" if there is no name.
[[nodiscard]] std::string shown_data_type(const json::Value& data_type);

}  // namespace damacy
