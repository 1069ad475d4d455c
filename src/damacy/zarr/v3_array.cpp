// zarr.json of an array, and its shards.
#include <algorithm>
#include <bit>

#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "damacy/zarr/detail/cf_attributes.h"
#include "damacy/zarr/detail/chunk_grid.h"
#include "damacy/zarr/detail/codecs.h"
#include "damacy/zarr/detail/data_type.h"
#include "damacy/zarr/detail/document.h"
#include "damacy/zarr/detail/extension.h"
#include "damacy/zarr/detail/extents.h"
#include "damacy/zarr/detail/fill_value.h"
#include "damacy/zarr/detail/permutation.h"
#include "damacy/zarr/metadata.h"

namespace damacy {
namespace {

using json::Kind;
using json::Value;

bool swaps(bool big_endian, Dtype dtype) {
  return scalar_size_of(dtype) > 1 && big_endian != (std::endian::native == std::endian::big);
}

KeyEncoding parse_key_encoding(const Value& value) {
  const Extension encoding = parse_extension(value, "chunk-key-encoding");
  if (encoding.name != "default" && encoding.name != "v2")
    throw value.unsupported(formatted("chunk key encoding '{}' is not supported", encoding.name), "chunk-key-encoding");
  encoding.allow({"separator"}, "chunk-key-encoding");
  KeyEncoding keys{.prefix_c = encoding.name == "default", .separator = encoding.name == "default" ? '/' : '.'};
  if (const auto separator = encoding.option("separator")) keys.separator = parse_separator(*separator);
  return keys;
}

ShardIndexLayout parse_index_codecs(const Value& list) {
  ShardIndexLayout layout;
  bool has_bytes = false;
  for (const Value value : list.expect(Kind::array)) {
    const Extension codec = parse_extension(value, "index-codecs");
    const bool is_checksum = codec.name == "crc32c";
    if ((!is_checksum && codec.name != "bytes") || is_checksum != has_bytes)
      throw value.unsupported(formatted("codec '{}' is not supported here in an index", codec.name), "index-codecs");
    if (is_checksum) {
      codec.allow({}, "codec-option");
      ++layout.checksums;
      continue;
    }
    has_bytes = true;
    layout.big_endian = parse_big_endian(codec, sizeof(std::uint64_t));
  }
  if (!has_bytes) throw list.unsupported("index codecs without 'bytes' are not supported", "index-codecs");
  check_codec_count(list.size() - 1, list);
  return layout;
}

bool parse_index_at_end(const Extension& sharding) {
  const auto location = sharding.option("index_location");
  if (!location) return true;
  const auto place = location->expect(Kind::string).text();
  if (place != "start" && place != "end")
    throw location->unsupported(formatted("index location '{}' is not supported", place), "codec-option");
  return place == "end";
}

// Chunks of a sharding codec, in the array's axes; `order` says how the shard's axes lie, and theirs.
Dims parse_inner_shape(const Value& chunk_shape, const Dims& shard, const Dims& order) {
  const Dims inner = by_axis(parse_extents_of_rank(chunk_shape, 1, shard.size(), "codec-chain"), order);
  for (std::size_t axis = 0; axis < shard.size(); ++axis)
    if (shard[axis] % inner[axis] != 0)
      throw chunk_shape.error(
          Status::decode,
          formatted("chunk extent {} does not divide shard extent {} of axis {}", inner[axis], shard[axis], axis),
          "codec-chain");
  check_index_entries(shard, inner, chunk_shape);
  return inner;
}

// Lists of codecs within lists of codecs, outermost first; what they encode gets smaller.
void parse_codecs(const Value& root_list, const Value& root_shape, ArrayMetadata& array) {
  const ChainPlace place{array.shape.size(), scalar_size_of(array.dtype)};
  Value list = root_list;
  Value chunk_shape = root_shape;
  array.chunk_shape = array.shard_shape;
  array.storage_order = identity_order(place.rank);
  std::size_t name_at = 0;
  for (;;) {
    V3Chain chain = parse_v3_codecs(list, place);
    const auto at = array.codec_names.begin() + static_cast<std::ptrdiff_t>(name_at);
    array.codec_names.insert(at, chain.names.begin(), chain.names.end());
    check_codec_count(array.codec_names.size(), list);
    array.storage_order = composed(array.storage_order, chain.order);
    if (!chain.sharding || !chain.codecs.empty()) check_decoded_bytes(array.chunk_shape, array.dtype, chunk_shape);
    if (!chain.sharding) {
      array.swap_bytes = swaps(chain.big_endian, array.dtype);
      array.codecs = CodecChain(std::move(chain.codecs));
      check_stages(array.codecs, array.chunk_bytes(), list);
      return;
    }
    name_at += chain.names_to_sharding;
    chunk_shape = chain.sharding->required("chunk_shape");
    const Dims inner = parse_inner_shape(chunk_shape, array.chunk_shape, array.storage_order);
    ShardIndexLayout index = parse_index_codecs(chain.sharding->required("index_codecs"));
    index.at_end = parse_index_at_end(*chain.sharding);
    array.shards.push_back({array.chunk_shape, index, array.storage_order, CodecChain(std::move(chain.codecs))});
    array.chunk_shape = inner;
    list = chain.sharding->required("codecs");
  }
}

void check_dimension_names(const Value& names, std::size_t rank) {
  if (names.is(Kind::null)) return;
  if (names.expect(Kind::array).size() != rank)
    throw names.error(Status::decode, formatted("expected {} dimension names, found {}", rank, names.size()),
                      "metadata");
  for (const Value name : names)
    if (!name.is(Kind::null)) name.expect(Kind::string);
}

void check_storage_transformers(const Value& list) {
  if (list.is(Kind::null)) return;
  for (const Value transformer : list.expect(Kind::array))
    throw transformer.unsupported("storage transformers are not supported", "storage-transformers");
}

bool is_array_member(std::string_view name) {
  constexpr std::string_view kMembers[] = {"zarr_format", "node_type",          "shape",  "data_type",
                                           "chunk_grid",  "chunk_key_encoding", "codecs", "fill_value"};
  return std::find(std::begin(kMembers), std::end(kMembers), name) != std::end(kMembers);
}

std::string parse_packing(const Value& attributes) {
  check_attributes(attributes);
  return packing_text(attributes);
}

// All but the members that every array has.
void parse_other_members(const Value& root, ArrayMetadata& array) {
  for (const Value member : root) {
    const auto name = member.name();
    if (name == "dimension_names")
      check_dimension_names(member, array.shape.size());
    else if (name == "storage_transformers")
      check_storage_transformers(member);
    else if (name == "attributes")
      array.packed_by = parse_packing(member);
    else if (!is_array_member(name))
      check_unknown_member(member);
  }
}

}  // namespace

ArrayMetadata parse_v3_array(std::string_view document) {
  check_document_size(document, Limits::array_document_bytes);
  const auto parsed = json::Document::parse(document, json::Form::v3_array);
  const Value root = parsed.root();
  check_format(root, 3);
  check_node_type(root, "array");
  ArrayMetadata array;
  array.zarr_format = 3;
  const Value shape = root.at("shape");
  array.shape = parse_extents(shape, 0);
  array.dtype = parse_v3_data_type(root.at("data_type"));
  const Value chunk_shape = grid_chunk_shape(root.at("chunk_grid"));
  array.shard_shape = parse_extents_of_rank(chunk_shape, 1, array.shape.size(), "metadata");
  check_array_extents(array, shape, chunk_shape);
  array.keys = parse_key_encoding(root.at("chunk_key_encoding"));
  parse_codecs(root.at("codecs"), chunk_shape, array);
  array.fill = parse_fill_value(root.at("fill_value"), array.dtype, 3);
  parse_other_members(root, array);
  return array;
}

}  // namespace damacy
