#include "damacy/zarr/stored_attributes.h"

#include <span>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "damacy/zarr/array.h"
#include "damacy/zarr/detail/opening.h"
#include "damacy/zarr/json.h"

namespace damacy {
namespace {

// Empty: there is none.
std::string read_attributes_document(Store& store, const std::string& key, std::optional<Stamp>& stamp) {
  const auto object = store.open(key);
  if (!object) return {};
  stamp = object->stamp();
  const std::uint64_t size = object->stamp().size;
  if (size > Limits::group_document_bytes)
    throw Error(Status::inval, formatted("document of {} bytes, limit {}", size, Limits::group_document_bytes),
                "limit");
  std::string document(size, '\0');
  object->read_piece(0, std::as_writable_bytes(std::span(document)));
  return document;
}

// In v2 every fill value except `null` is a missing value.
bool has_missing_fill(const FoundArray& found) {
  if (found.zarr_format != 2) return false;
  const auto parsed = json::Document::parse(found.text, json::Form::plain);
  return !parsed.root().at("fill_value").is(json::Kind::null);
}

}  // namespace

StoredAttributes stored_attributes(FoundArray& found, Store& store, ElementFacts facts) {
  const std::string key = found.zarr_format == 3 ? found.key : below(found.path, ".zattrs");
  try {
    if (!has_missing_fill(found)) facts.fill.reset();
    StoredAttributes out;
    if (found.zarr_format == 3) {
      out.document = std::move(found.text);
      out.parsed = parse_v3_attributes(out.document, facts);
    } else {
      out.apart = {key, std::nullopt};
      out.document = read_attributes_document(store, key, out.apart->stamp);
      out.parsed = parse_v2_attributes(out.document, facts);
    }
    if (out.parsed.cf_error) out.parsed.cf_error->at_key(key);
    if (found.axes.size() == facts.rank) {
      out.parsed.dims = std::move(found.axes);
      out.parsed.axis_types = std::move(found.axis_types);
    }
    return out;
  } catch (Error& e) {
    e.at_key(key);
    forget_document(store, e);
    throw;
  }
}

ArrayAttributes read_attributes(const Array& array, std::vector<AttributesDocument>* others) {
  try {
    LargeDocuments large;
    FoundArray found = find_array(array.uri(), *array.store(), large);
    if (found.key != array.document_key() || found.stamp != array.document_stamp())
      throw Error(Status::io, "the object is not the version that was opened", "changed").at_key(found.key);
    StoredAttributes stored =
        stored_attributes(found, *array.store(), {array.rank(), array.dtype(), array.metadata().fill});
    if (others != nullptr) {
      for (ReadDocument& group : found.through) others->push_back({std::move(group.key), group.stamp});
      if (stored.apart) others->push_back(std::move(*stored.apart));
    }
    ArrayAttributes attributes = std::move(stored.parsed);
    attributes.dims.resize(array.rank());
    if (attributes.cf_error) attributes.cf_error->at_uri(array.uri()).at_store(array.store()->name());
    return attributes;
  } catch (Error& e) {
    throw e.at_uri(array.uri()).at_store(array.store()->name());
  }
}

}  // namespace damacy
