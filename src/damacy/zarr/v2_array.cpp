// .zarray: documents of zarr v2.
#include <bit>

#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "damacy/zarr/detail/codecs.h"
#include "damacy/zarr/detail/data_type.h"
#include "damacy/zarr/detail/document.h"
#include "damacy/zarr/detail/extents.h"
#include "damacy/zarr/detail/fill_value.h"
#include "damacy/zarr/metadata.h"

namespace damacy {
namespace {

using json::Kind;
using json::Value;

// Zero is written by some for axes without extent.
Dims parse_chunks(const Value& list, const Dims& shape) {
  Dims chunks = parse_extents_of_rank(list, 0, shape.size(), "metadata");
  std::size_t axis = 0;
  for (const Value entry : list) {
    if (chunks[axis] == 0) {
      if (shape[axis] != 0)
        throw entry.error(Status::decode, "chunk extent 0 on an axis that is not empty", "metadata");
      chunks[axis] = 1;
    }
    ++axis;
  }
  return chunks;
}

bool parse_is_column_major(const Value& order) {
  const auto letter = order.expect(Kind::string).text();
  if (letter != "C" && letter != "F")
    throw order.error(Status::decode, formatted("order '{}', expected C or F", letter), "metadata");
  return letter == "F";
}

// In encoding order: the filters, then the compressor.
void parse_codecs(const Value& root, ArrayMetadata& array) {
  std::vector<CodecSpec> codecs;
  const auto add = [&](const Value& value) {
    array.codec_names.emplace_back(value.at("id").expect(Kind::string).text());
    if (auto codec = parse_v2_codec(value)) codecs.push_back(std::move(*codec));
  };
  const auto filters = root.find("filters");
  const bool has_filters = filters && !filters->is(Kind::null);
  if (has_filters) {
    check_codec_count(filters->expect(Kind::array).size(), *filters);
    for (const Value filter : *filters) add(filter);
  }
  const auto compressor = root.find("compressor");
  const bool has_compressor = compressor && !compressor->is(Kind::null);
  if (has_compressor) add(*compressor);
  const Value& at = has_filters ? *filters : has_compressor ? *compressor : root;
  check_codec_count(array.codec_names.size(), at);
  array.codecs = CodecChain(std::move(codecs));
  check_stages(array.codecs, array.chunk_bytes(), at);
}

void parse_keys(const Value& root, ArrayMetadata& array) {
  array.keys = {.prefix_c = false, .separator = '.'};
  const auto separator = root.find("dimension_separator");
  if (separator && !separator->is(Kind::null)) array.keys.separator = parse_separator(*separator);
  array.separator_was_absent = !separator && array.shape.size() >= 2;
}

}  // namespace

ArrayMetadata parse_v2_array(std::string_view document) {
  check_document_size(document, Limits::array_document_bytes);
  const auto parsed = json::Document::parse(document, json::Form::plain);
  const Value root = parsed.root();
  check_format(root, 2);
  ArrayMetadata array;
  array.zarr_format = 2;
  const Value shape = root.at("shape");
  array.shape = parse_extents(shape, 0);
  const V2Dtype type = parse_v2_dtype(root.at("dtype"));
  array.dtype = type.dtype;
  array.swap_bytes = size_of(type.dtype) > 1 && type.big_endian != (std::endian::native == std::endian::big);
  const Value chunks = root.at("chunks");
  array.chunk_shape = array.shard_shape = parse_chunks(chunks, array.shape);
  check_array_extents(array, shape, chunks);
  check_decoded_bytes(array.chunk_shape, array.dtype, chunks);
  const bool column_major = parse_is_column_major(root.at("order"));
  const auto rank = static_cast<std::int64_t>(array.shape.size());
  for (std::int64_t i = 0; i < rank; ++i) array.storage_order.push_back(column_major ? rank - 1 - i : i);
  parse_codecs(root, array);
  array.fill = parse_fill_value(root.at("fill_value"), array.dtype, 2);
  parse_keys(root, array);
  return array;
}

}  // namespace damacy
