// Which points fall into which stored objects, and where each goes: a read's items. Reads nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "damacy/single/selection_job.h"
#include "damacy/zarr/array.h"
#include "damacy/zarr/array_selection.h"

namespace damacy {

// Of an array with at least two axes. Point i goes to byte `first` + i * `step`. Throws Error(inval, "limit") for more
// pieces than Limits::chunks_per_sample; neighbours along the last axis are one piece.
[[nodiscard]] std::vector<SelectedObject> objects_of_points(const Array& array, const ResolvedPoints& points,
                                                            std::int64_t first, std::int64_t step);

}  // namespace damacy
