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

// Throws Error(inval, "limit") if the elements or bytes of the array or of a stored object, or the extent of the grid,
// reach 2^63, or if the bytes that are decoded as a whole or a shard's entries exceed their limits. Errors have the
// values.
void check_array_extents(const ArrayMetadata& array, const json::Value& shape, const json::Value& stored_shape);
void check_decoded_bytes(const Dims& shape, Dtype dtype, const json::Value& chunk_shape);
void check_index_entries(const Dims& shard, const Dims& inner, const json::Value& chunk_shape);

}  // namespace damacy
