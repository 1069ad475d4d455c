#include "damacy/zarr/array_info.h"

#include "damacy/core/dtype.h"
#include "damacy/core/error.h"
#include "damacy/core/text.h"
#include "damacy/io/storage_watch.h"
#include "damacy/zarr/detail/opening.h"
#include "damacy/zarr/detail/outline.h"

namespace damacy {
namespace {

void describe(const ArrayMetadata& array, ArrayInfo& info) {
  info.shape = array.shape;
  info.dtype = name_of(array.dtype);
  info.chunks = array.chunk_shape;
  if (!array.shards.empty()) info.shards = array.shard_shape;
  info.codecs = array.codec_names;
  info.supported = is_batch_dtype(array.dtype);
  if (!info.supported)
    info.why_not = text("no batch conversion for ", info.dtype, ": read it through zarr-python and damacy.zarr");
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

}  // namespace

ArrayInfo array_info(const std::string& uri, std::shared_ptr<Store> store) {
  try {
    LargeDocuments large;
    FoundArray found = find_array(uri, *store, large);
    ArrayInfo info;
    info.uri = uri;
    info.zarr_format = found.zarr_format;
    info.levels = std::move(found.levels);
    try {
      describe(parse_found(found), info);
    } catch (Error& e) {
      if (e.kind() != ErrorKind::unsupported_format) throw;
      describe(found.zarr_format == 3 ? outline_v3(found.text) : outline_v2(found.text),
               e.at_uri(uri).at_store(store->name()).what(), info);
    }
    return info;
  } catch (Error& e) {
    throw e.at_uri(uri).at_store(store->name());
  }
}

ArrayInfo array_info(const std::string& uri) {
  return array_info(uri, make_watched_store(make_file_store(path_of_uri(uri), 1)));
}

}  // namespace damacy
