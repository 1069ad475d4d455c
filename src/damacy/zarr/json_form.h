// The forms of zarr documents, by which the parser knows what to keep of them. Knows names only.
#pragma once

#include <cstdint>

namespace damacy::json {

// What of a document is kept. Everything is checked; what is not kept costs no memory. Of attributes and consolidated
// metadata only what finding arrays needs is kept.
enum class Form : std::uint8_t {
  plain,             // .zarray, at most 1 MiB: all but the ends of long lists
  v3_array,          // zarr.json of at most 1 MiB: all the rest
  v3_group,          // zarr.json of a group, or of who knows what
  v2_group,          // .zgroup
  attributes,        // .zattrs
  array_attributes,  // .zattrs of an array: only what is understood of it
  attribute,         // one value of those, numbers of any length
  ngff_group,        // zarr.json of a group: what images, labels and plates are described by
  ngff_attributes,   // .zattrs of a group: the same
  consolidated       // .zmetadata
};

}  // namespace damacy::json
