// Information about an array, for users and samplers, before it is read. Also for well-formed arrays that are not
// supported, with the reason. What attributes say is values here: names of dimensions, how elements are packed, and
// which of them are missing. Knows no documents.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "damacy/core/dims.h"
#include "damacy/core/dtype.h"

namespace damacy {

class Store;

using DimensionNames = std::vector<std::optional<std::string>>;

// size_of(dtype) bytes in the machine's order, the rest zero.
using FillBytes = std::array<std::byte, 16>;

// Of the Climate and Forecast conventions.
struct CfAttributes {
  std::optional<double> scale_factor;  // finite, not 0
  std::optional<double> add_offset;    // finite
  std::optional<bool> is_unsigned;     // `_Unsigned`, on integers only
  // Elements that are missing, of `missing_type`: the stored type, or the integer type that `_Unsigned` makes of it.
  std::vector<FillBytes> missing;
  Dtype missing_type = Dtype::u8;

  bool empty() const noexcept { return !scale_factor && !add_offset && !is_unsigned && missing.empty(); }
};

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

  DimensionNames dims;                  // one an axis, each a name or empty
  std::optional<Dtype> elements;        // empty: of a type that is not supported
  FillBytes fill{};                     // an element of that type
  std::optional<CfAttributes> cf;       // how elements are packed, and which are missing
  std::string cf_problem;               // why attributes that say so cannot be used
  std::vector<std::string> looked_for;  // keys of all documents that were there or might have been
  std::string
      attributes_document;  // checked JSON: zarr.json, whose member `attributes` they are, or .zattrs; may be empty
};

// Throws what opening the array throws, except UnsupportedFormat. Unknown fields of an unsupported array are empty.
[[nodiscard]] ArrayInfo array_info(const std::string& uri, std::shared_ptr<Store> store);
// With the file store that the uri names.
[[nodiscard]] ArrayInfo array_info(const std::string& uri);

}  // namespace damacy
