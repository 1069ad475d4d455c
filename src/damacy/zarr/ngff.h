// Parses the description of images, labels and plates by OME-NGFF 0.1 to 0.5, from the attributes of a group. Pure:
// text in, values out. A violation of the specification is a line in `problems`; it never fails the parser. Knows no
// arrays: it does not compare axes with shapes.
#pragma once

#include <string_view>

#include "damacy/zarr/ngff_description.h"

namespace damacy {

// `document`: zarr.json of a v3 group, or .zattrs of a v2 group, may be empty. Throws Error(decode, "json") and
// Error(inval, "limit") only.
[[nodiscard]] Ngff parse_ngff(std::string_view document, int zarr_format);

}  // namespace damacy
