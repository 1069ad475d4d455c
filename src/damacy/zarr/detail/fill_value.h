// Parses fill values of documents, exactly to the bit.
#pragma once

#include "damacy/core/dtype.h"
#include "damacy/zarr/array_info.h"
#include "damacy/zarr/json.h"

namespace damacy {

// size_of(dtype) bytes in the machine's order, the rest zero. Throws Error(decode, "fill-value").
// v2 allows more: null, and 0 and 1 for bool.
[[nodiscard]] FillBytes parse_fill_value(const json::Value& fill, Dtype dtype, int zarr_format);

}  // namespace damacy
