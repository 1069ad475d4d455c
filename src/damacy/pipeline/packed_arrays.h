// Warns once per process and uri that an array's elements are delivered as stored, although attributes say how to
// unpack them.
#pragma once

#include "damacy/zarr/array.h"
#include "damacy/zarr/metadata.h"

namespace damacy {

// One WARNING for an array that has scale_factor or add_offset; nothing for any other, or the second time.
void warn_if_packed(const Array& array);

}  // namespace damacy
