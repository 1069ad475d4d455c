#include "damacy/zarr/array_attributes.h"

#include "damacy/core/limits.h"
#include "damacy/zarr/detail/cf_attributes.h"
#include "damacy/zarr/detail/document.h"

namespace damacy {
namespace {

using json::Kind;
using json::Value;

// Empty unless there is one entry for each axis, a string or null.
DimensionNames names_in(const std::optional<Value>& list, std::size_t rank) {
  DimensionNames names;
  if (!list || !list->is(Kind::array) || list->size() != rank) return names;
  for (const Value name : *list) {
    if (!name.is(Kind::string) && !name.is(Kind::null)) return {};
    names.push_back(name.is(Kind::string) ? std::optional(std::string(name.text())) : std::nullopt);
  }
  return names;
}

void parse_cf_into(const Value& attributes, const ElementFacts& facts, int zarr_format, ArrayAttributes& out) {
  if (!facts.dtype) return;
  try {
    CfAttributes cf = parse_cf(attributes, *facts.dtype, zarr_format, facts.fill);
    if (!cf.empty()) out.cf = std::move(cf);
  } catch (const Error& e) {
    out.cf_error = e;
  }
}

}  // namespace

CfAttributes ArrayAttributes::usable_cf() const {
  if (cf_error) throw Error(*cf_error);
  return cf.value_or(CfAttributes());
}

std::optional<std::size_t> ArrayAttributes::channel_axis() const {
  for (std::size_t axis = 0; axis < axis_types.size(); ++axis)
    if (axis_types[axis] == "channel") return axis;
  for (std::size_t axis = 0; axis < dims.size(); ++axis)
    for (const std::string_view name : {"c", "channel", "band", "variable"})
      if (dims[axis] == name) return axis;
  return std::nullopt;
}

ArrayAttributes parse_v3_attributes(std::string_view document, const ElementFacts& facts) {
  check_document_size(document, Limits::array_document_bytes);
  const auto parsed = json::Document::parse(document, json::Form::v3_array);
  const Value root = parsed.root().expect(Kind::object);
  ArrayAttributes out;
  out.dims = names_in(root.find("dimension_names"), facts.rank);
  const auto attributes = root.find("attributes");
  if (!attributes || !attributes->is(Kind::object)) return out;
  if (out.dims.empty()) out.dims = names_in(attribute(*attributes, "_ARRAY_DIMENSIONS"), facts.rank);
  parse_cf_into(*attributes, facts, 3, out);
  return out;
}

ArrayAttributes parse_v2_attributes(std::string_view attributes, const ElementFacts& facts) {
  check_document_size(attributes, Limits::group_document_bytes);
  const std::string_view text_of = attributes.empty() ? "{}" : attributes;
  const auto parsed = json::Document::parse(text_of, json::Form::array_attributes);
  if (!parsed.root().is(Kind::object)) parsed.root().expect(Kind::object);
  ArrayAttributes out;
  out.dims = names_in(attribute(parsed.root(), "_ARRAY_DIMENSIONS"), facts.rank);
  parse_cf_into(parsed.root(), facts, 2, out);
  return out;
}

}  // namespace damacy
