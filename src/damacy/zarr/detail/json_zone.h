// Which parts of zarr documents are kept, and which limits apply: every container and value has a zone. Of large
// documents (of groups) only a small part is kept; documents of arrays are small and kept whole. Knows names of members
// on the path to arrays and images; does not know values.
#pragma once

#include <cstdint>
#include <string_view>

#include "damacy/zarr/json_form.h"

namespace damacy::json {

enum class Zone : std::uint8_t {
  plain,             // kept but for the ends of long lists, all limits hold
  dropped,           // not kept, all limits hold
  free,              // not kept, inside attributes: no limits but nesting
  scalar,            // kept, but nothing inside
  free_scalar,       // the same inside attributes
  v3_array,          // root of zarr.json
  v3_group,          // root of zarr.json
  v2_group,          // root of .zgroup
  extension,         // an unknown member of a v3 group
  attributes,        // the object with an image's metadata …
  ome,               // … and its member `ome`
  array_attributes,  // the object with an array's
  attribute,         // one of them that is understood, with its items
  axes,              // list
  axis,              // its elements
  multiscales,       // list
  multiscale,        // its first element
  datasets,          // list
  dataset,           // its elements
  consolidated,      // v3
  map,               // v3: paths to documents
  mapped,            // one of these
  ngff_group,        // root of zarr.json
  ngff_attributes,   // the object with the description of an image, labels or a plate
  ngff,              // in it: kept whole, except for the ends of long lists
  v2_consolidated,
  v2_map,
};

[[nodiscard]] bool is_dropped(Zone zone) noexcept;
[[nodiscard]] bool limits_text(Zone zone) noexcept;     // the length of strings and numbers
[[nodiscard]] bool limits_members(Zone zone) noexcept;  // their number

[[nodiscard]] Zone zone_of_root(Form form) noexcept;
// `index`: how many members or items came before.
[[nodiscard]] Zone zone_of_member(Zone parent, std::string_view name, std::uint32_t index) noexcept;
[[nodiscard]] Zone zone_of_item(Zone parent, std::uint32_t index) noexcept;

}  // namespace damacy::json
