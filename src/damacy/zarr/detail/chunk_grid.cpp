#include "damacy/zarr/detail/chunk_grid.h"

#include "damacy/core/formatted.h"
#include "damacy/zarr/detail/extension.h"

namespace damacy {

using json::Kind;
using json::Value;

namespace {

Value regular_chunk_shape(const Extension& grid) {
  grid.allow({"chunk_shape"}, "chunk-grid");
  return grid.required("chunk_shape");
}

// Accepted as far as it is regular.
Value rectilinear_chunk_shape(const Extension& grid) {
  grid.allow({"kind", "chunk_shapes"}, "chunk-grid");
  const Value kind = grid.required("kind");
  if (kind.expect(Kind::string).text() != "inline")
    throw kind.unsupported(formatted("kind '{}' of a rectilinear grid is not supported", kind.text()), "chunk-grid");
  const Value shapes = grid.required("chunk_shapes");
  for (const Value lengths : shapes.expect(Kind::array))
    if (lengths.is(Kind::array))
      throw lengths.unsupported("chunks of different lengths are not supported", "chunk-grid");
  return shapes;
}

}  // namespace

Value grid_chunk_shape(const Value& chunk_grid) {
  const Extension grid = parse_extension(chunk_grid, "chunk-grid");
  if (grid.name == "regular") return regular_chunk_shape(grid);
  if (grid.name == "rectilinear") return rectilinear_chunk_shape(grid);
  throw chunk_grid.unsupported(formatted("chunk grid '{}' is not supported", grid.name), "chunk-grid");
}

}  // namespace damacy
