// Warns once per process and place that an array's elements are delivered as stored, although attributes say how to
// unpack them. A forked child warns anew.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "damacy/zarr/array.h"
#include "damacy/zarr/metadata.h"

namespace damacy {

// One WARNING for an array that has scale_factor or add_offset; nothing for any other, or the second time.
void warn_if_packed(const Array& array);

// Attributes of a v2 array are in a document of their own, which batches do not read. A caller that has read it
// notes by what the elements are packed.
void note_packed(const std::string& uri, std::string_view packed_by);

// The texts of the warnings since the last call, for a caller that shows them again.
[[nodiscard]] std::vector<std::string> take_packed_warnings();

}  // namespace damacy
