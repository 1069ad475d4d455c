// Reads the attributes of an array from its store: the document itself (v3), .zattrs (v2), and the axes of the image
// through which the array was found. Only users of attributes call it; opening and reading an array do not.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "damacy/store/store.h"
#include "damacy/zarr/array_attributes.h"

namespace damacy {

class Array;
struct FoundArray;

// A document whose attributes are an array's, besides the array's own document.
struct AttributesDocument {
  std::string key;
  std::optional<Stamp> stamp;  // empty: it was not there
};

struct StoredAttributes {
  ArrayAttributes parsed;
  std::optional<AttributesDocument> apart;  // .zattrs
  std::string document;  // checked JSON: zarr.json, whose member `attributes` they are, or .zattrs; may be empty
};

// Takes the text of a v3 document from `found`. Throws what parsing throws, with the key.
[[nodiscard]] StoredAttributes stored_attributes(FoundArray& found, Store& store, ElementFacts facts);

// Of an opened array: reads its documents again, and in v2 .zattrs. Adds all but the array's own to `others`. `dims`
// has one entry an axis, each a name or empty. Nothing is cached. Throws Error(io, "changed") if the array's document
// is no longer the one that was opened, and what parsing throws, with uri, store, key and pointer. Attributes of CF
// that cannot be used are in `cf_error`, which has the same fields.
[[nodiscard]] ArrayAttributes read_attributes(const Array& array, std::vector<AttributesDocument>* others = nullptr);

}  // namespace damacy
