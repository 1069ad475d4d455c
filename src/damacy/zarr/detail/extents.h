// Lists of extents in documents, and the limits on their products.
#pragma once

#include <cstdint>

#include "damacy/core/dims.h"
#include "damacy/zarr/json.h"
#include "damacy/zarr/metadata.h"

namespace damacy {

// A list of integers >= min, at most Limits::rank of them.
[[nodiscard]] Dims parse_extents(const json::Value& list, std::int64_t min);

// As above, one for each of `rank` axes; another length is Error(decode, `reason`).
[[nodiscard]] Dims parse_extents_of_rank(const json::Value& list, std::int64_t min, std::size_t rank,
                                         std::string_view reason);

// Throws Error(inval, "limit"): the array's and a stored object's elements and bytes, and the extent of the grid, stay
// below 2^63; the bytes of what is decoded as a whole and a shard's entries within their limits. The values are named
// in errors.
void check_array_extents(const ArrayMetadata& array, const json::Value& shape, const json::Value& stored_shape);
void check_decoded_bytes(const Dims& shape, Dtype dtype, const json::Value& chunk_shape);
void check_index_entries(const Dims& shard, const Dims& inner, const json::Value& chunk_shape);

}  // namespace damacy
