// Makes an ArrayInfo of the documents of an array, as far as they are well-formed.
#include "damacy/zarr/array_info.h"

#include "damacy/cache/disk/environment_tier.h"
#include "damacy/core/dtype.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/log.h"
#include "damacy/store/mounts.h"
#include "damacy/store/storage_watch.h"
#include "damacy/zarr/detail/opening.h"
#include "damacy/zarr/detail/outline.h"
#include "damacy/zarr/json.h"
#include "damacy/zarr/stored_attributes.h"

namespace damacy {
namespace {

// The document has been parsed as an array of dates or durations.
std::string time_unit_in(const FoundArray& found) {
  const auto form = found.zarr_format == 3 ? json::Form::v3_array : json::Form::plain;
  const auto parsed = json::Document::parse(found.text, form);
  if (found.zarr_format == 2) {
    const std::string type(parsed.root().at("dtype").text());  // "<M8[25us]"
    return type.substr(type.find('[') + 1, type.size() - type.find('[') - 2);
  }
  const json::Value configuration = parsed.root().at("data_type").at("configuration");
  const auto factor = configuration.find("scale_factor");
  return formatted("{}{}", factor && factor->text() != "1" ? factor->text() : std::string_view(),
                   configuration.at("unit").text());
}

void describe(const ArrayMetadata& array, ArrayInfo& info) {
  info.shape = array.shape;
  info.dtype = name_of(array.dtype);
  info.chunks = array.chunk_shape;
  if (!array.shards.empty()) info.shards = array.shard_shape;
  info.codecs = array.codec_names;
  info.supported = is_batch_dtype(array.dtype);
  if (!info.supported)
    info.why_not = formatted("no batch conversion for {}: read it through zarr-python and damacy.zarr", info.dtype);
  info.elements = array.dtype;
  info.fill = array.fill;
}

void describe(Outline outline, std::string why_not, ArrayInfo& info) {
  info.shape = outline.shape;
  info.dtype = std::move(outline.dtype);
  info.chunks = outline.chunks;
  info.shards = outline.shards;
  info.codecs = std::move(outline.codecs);
  info.supported = false;
  info.why_not = std::move(why_not);
}

// Malformed attributes do not make an array unreadable: they are ignored with a warning.
void describe_attributes(FoundArray& found, Store& store, ArrayInfo& info) {
  StoredAttributes attributes = stored_attributes(found, store, {info.shape.size(), info.elements, info.fill});
  info.dims = std::move(attributes.parsed.dims);
  info.cf = std::move(attributes.parsed.cf);
  if (const auto& error = attributes.parsed.cf_error)
    info.cf_problem = formatted("{}: {}", error->where().pointer, error->message());
  info.attributes_document = std::move(attributes.document);
}

void describe_attributes_if_legal(FoundArray& found, Store& store, ArrayInfo& info) {
  try {
    describe_attributes(found, store, info);
  } catch (const Error& e) {
    if (e.status() != Status::decode && e.status() != Status::inval) throw;
    log(LogLevel::warn, formatted("{}: attributes are left out: {}", info.uri, e.message()));
  }
  if (info.dims.size() != info.shape.size()) info.dims.resize(info.shape.size());
}

ArrayInfo read_array_info(const std::string& uri, Store& store) {
  LargeDocuments large;
  FoundArray found = find_array(uri, store, large);
  ArrayInfo info;
  info.uri = uri;
  info.zarr_format = found.zarr_format;
  info.levels = std::move(found.levels);
  info.looked_for = std::move(found.looked_for);
  try {
    describe(parse_found(found), info);
    if (info.elements == Dtype::datetime64 || info.elements == Dtype::timedelta64) info.time_unit = time_unit_in(found);
  } catch (Error& e) {
    if (e.kind() != ErrorKind::unsupported_format) throw;
    describe(found.zarr_format == 3 ? outline_v3(found.text) : outline_v2(found.text),
             e.at_uri(uri).at_store(store.name()).what(), info);
  }
  describe_attributes_if_legal(found, store, info);
  return info;
}

}  // namespace

ArrayInfo array_info(const std::string& uri, std::shared_ptr<Store> store) {
  try {
    return read_documents(*store, [&] { return read_array_info(uri, *store); });
  } catch (Error& e) {
    throw e.at_uri(uri).at_store(store->name());
  }
}

ArrayInfo array_info(const std::string& uri) {
  return array_info(uri, make_watched_store(with_environment_tier(store_of_uri(uri))));
}

}  // namespace damacy
