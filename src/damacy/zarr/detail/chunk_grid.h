// v3 chunk grids. Only regular ones are supported; errors name the others.
#pragma once

#include "damacy/zarr/json.h"

namespace damacy {

// The list with one chunk extent for each axis. Grids that are not regular are refused.
[[nodiscard]] json::Value grid_chunk_shape(const json::Value& chunk_grid);

}  // namespace damacy
