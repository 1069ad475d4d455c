// Information about an array, for users and samplers, before it is read. Also for well-formed arrays that are not
// supported, with the reason.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "damacy/core/dims.h"
#include "damacy/core/dtype.h"
#include "damacy/zarr/attribute_values.h"

namespace damacy {

class Store;

struct ArrayInfo {
  std::string uri;
  Dims shape;
  std::string dtype;           // v3's name; a v2 type that cannot be read, as the document spells it
  Dims chunks;                 // inner chunks
  std::optional<Dims> shards;  // empty: unsharded
  int zarr_format = 3;
  std::string time_unit;            // of dates and durations: "s", "25us"; else empty
  std::vector<std::string> codecs;  // names, in the order of the document
  std::vector<std::string> levels;  // of the NGFF image that the uri names, finest first
  bool supported = true;            // whether a pipeline can make batches of it
  std::string why_not;              // a refusal's text

  DimensionNames dims;             // one an axis, each a name or empty
  std::optional<Dtype> elements;   // empty: of a type that is not supported
  FillBytes fill{};                // an element of that type
  std::optional<CfAttributes> cf;  // how elements are packed, and which are missing
  std::string cf_problem;          // why attributes that say so cannot be used
  std::string
      attributes_document;  // checked JSON: zarr.json, whose member `attributes` they are, or .zattrs; may be empty
};

// Throws what opening the array throws, except UnsupportedFormat. Unknown fields of an unsupported array are empty.
[[nodiscard]] ArrayInfo array_info(const std::string& uri, std::shared_ptr<Store> store);
// With the file store that the uri names.
[[nodiscard]] ArrayInfo array_info(const std::string& uri);

}  // namespace damacy
