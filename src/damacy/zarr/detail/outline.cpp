#include "damacy/zarr/detail/outline.h"

#include "damacy/core/error.h"
#include "damacy/zarr/detail/chunk_grid.h"
#include "damacy/zarr/detail/codecs.h"
#include "damacy/zarr/detail/data_type.h"
#include "damacy/zarr/detail/extents.h"
#include "damacy/zarr/detail/permutation.h"
#include "damacy/zarr/json.h"

namespace damacy {
namespace {

using json::Kind;
using json::Value;

template <class Part>
void if_understood(Part part) {
  try {
    part();
  } catch (const Error&) {
  }
}

// A name as a string, or the member `key` of an object.
std::string shown_name(const Value& codec, std::string_view key) {
  if (codec.is(Kind::string)) return std::string(codec.text());
  return std::string(codec.at(key).expect(Kind::string).text());
}

void add_codecs(const Value& list, Dims order, Outline& outline);

void add_sharding(const Extension& sharding, const Dims& order, Outline& outline) {
  if (!outline.shards) outline.shards = outline.chunks;
  const Value chunk_shape = sharding.required("chunk_shape");
  outline.chunks = by_axis(parse_extents_of_rank(chunk_shape, 1, order.size(), "metadata"), order);
  add_codecs(sharding.required("codecs"), order, outline);
}

void add_codecs(const Value& list, Dims order, Outline& outline) {
  for (const Value codec : list.expect(Kind::array)) {
    outline.codecs.push_back(shown_name(codec, "name"));
    if (outline.codecs.back() == "transpose")
      order = composed(order, parse_transpose(parse_extension(codec, "codec-option"), order.size()));
    else if (outline.codecs.back() == "sharding_indexed")
      add_sharding(parse_extension(codec, "codec-option"), order, outline);
  }
}

void add_v2_codec(const Value& codec, Outline& outline) {
  if (!codec.is(Kind::null)) outline.codecs.push_back(shown_name(codec, "id"));
}

}  // namespace

Outline outline_v3(std::string_view document) {
  const auto parsed = json::Document::parse(document, json::Form::v3_array);
  const Value root = parsed.root();
  Outline outline;
  if_understood([&] { outline.shape = parse_extents(root.at("shape"), 0); });
  if_understood([&] { outline.dtype = shown_data_type(root.at("data_type")); });
  const std::size_t rank = outline.shape.size();
  if_understood(
      [&] { outline.chunks = parse_extents_of_rank(grid_chunk_shape(root.at("chunk_grid")), 1, rank, "metadata"); });
  if_understood([&] { add_codecs(root.at("codecs"), identity_order(rank), outline); });
  return outline;
}

Outline outline_v2(std::string_view document) {
  const auto parsed = json::Document::parse(document, json::Form::plain);
  const Value root = parsed.root();
  Outline outline;
  if_understood([&] { outline.shape = parse_extents(root.at("shape"), 0); });
  if_understood([&] { outline.dtype = shown_data_type(root.at("dtype")); });
  if_understood([&] { outline.chunks = parse_extents(root.at("chunks"), 0); });
  if_understood([&] {
    if (const auto filters = root.find("filters"); filters && filters->is(Kind::array))
      for (const Value filter : *filters) add_v2_codec(filter, outline);
  });
  if_understood([&] { add_v2_codec(root.at("compressor"), outline); });
  return outline;
}

}  // namespace damacy
