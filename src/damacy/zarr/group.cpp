// Group documents of both versions, and consolidated metadata.
#include <algorithm>

#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "damacy/zarr/detail/document.h"
#include "damacy/zarr/detail/opening.h"
#include "damacy/zarr/metadata.h"

namespace damacy {
namespace {

using json::Kind;
using json::Value;

// For an invalid node type: the expected ones.
std::string_view meant(std::string_view kind) {
  const auto is = [&](std::string_view name) {
    return std::ranges::equal(kind, name, {},
                              [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  };
  if (is("array")) return "'array'";
  return is("group") ? "'group'" : "'array' or 'group'";
}

std::string parse_level_path(const Value& dataset) {
  const Value path = dataset.at("path");
  if (!is_path_below(path.expect(Kind::string).text()))
    throw path.error(Status::decode, formatted("'{}' is not a path below the group", path.text()), "metadata");
  return std::string(path.text());
}

// The first level is read and must be valid. Other levels are only listed for users.
void parse_levels(const Value& multiscale, GroupMetadata& group) {
  const Value datasets = multiscale.at("datasets");
  if (datasets.expect(Kind::array).size() == 0)
    throw datasets.error(Status::decode, "a multiscale without datasets", "metadata");
  for (const Value dataset : datasets) {
    try {
      group.level_paths.push_back(parse_level_path(dataset));
    } catch (const Error&) {
      if (group.level_paths.empty()) throw;
    }
  }
}

std::optional<std::string> text_member(const Value& object, std::string_view name) {
  std::optional<std::string> found;
  for (const Value member : object)
    if (member.name() == name && member.is(Kind::string)) found = std::string(member.text());
  return found;
}

// NGFF 0.1 and 0.2 have five axes and do not list them.
void set_axes_of_old_images(const Value& multiscale, GroupMetadata& group) {
  const auto version = text_member(multiscale, "version");
  if (version != "0.1" && version != "0.2") return;
  group.axes = {"t", "c", "z", "y", "x"};
  group.axis_types = {"time", "channel", "space", "space", "space"};
}

// Axes are objects with a name, or names (NGFF 0.3). Other items are axes without a name.
void parse_axes(const Value& multiscale, GroupMetadata& group) {
  const auto list = multiscale.find("axes");
  if (!list) return set_axes_of_old_images(multiscale, group);
  if (!list->is(Kind::array)) return;
  for (const Value axis : *list) {
    const bool is_object = axis.is(Kind::object);
    group.axes.push_back(is_object               ? text_member(axis, "name")
                         : axis.is(Kind::string) ? std::optional(std::string(axis.text()))
                                                 : std::nullopt);
    group.axis_types.push_back(is_object ? text_member(axis, "type") : std::nullopt);
  }
}

std::optional<Value> find_multiscales(const Value& attributes) {
  const auto list = attributes.find("multiscales");
  return list && list->is(Kind::array) && list->size() != 0 ? list : std::nullopt;
}

bool names_images(const Value& attributes) {
  return attributes.find("plate") || attributes.find("well") || attributes.find("bioformats2raw.layout");
}

// `ome`: the member of that name (v3), which takes precedence.
void parse_image(const Value& attributes, std::optional<Value> ome, GroupMetadata& group) {
  if (ome && !ome->is(Kind::object)) ome.reset();
  group.names_images_inside = names_images(attributes) || (ome && names_images(*ome));
  auto multiscales = ome ? find_multiscales(*ome) : std::nullopt;
  if (!multiscales) multiscales = find_multiscales(attributes);
  if (!multiscales) return;
  group.has_multiscales = true;
  group.multiscales_count = multiscales->size();
  parse_levels(*multiscales->begin(), group);
  parse_axes(*multiscales->begin(), group);
}

// A node that the map names. Names that are no path below the group are left out: nothing is opened by them.
void add_consolidated(std::string_view path, bool is_array, GroupMetadata& group) {
  if (!is_path_below(path)) return;
  if (is_array) group.consolidated_arrays.emplace_back(path);
  if (path.find('/') == std::string_view::npos) group.consolidated_members.emplace_back(path);
}

void parse_v3_consolidated(const Value& consolidated, GroupMetadata& group) {
  if (consolidated.at("kind").expect(Kind::string).text() != "inline")
    throw consolidated.error(Status::decode, "unknown kind", "metadata");
  if (consolidated.at("must_understand").expect(Kind::boolean).truth())
    throw consolidated.error(Status::decode, "must_understand is not false", "metadata");
  for (const Value document : consolidated.at("metadata").expect(Kind::object)) {
    const auto type = document.at("node_type").expect(Kind::string).text();
    if (type == "array" || type == "group") add_consolidated(document.name(), type == "array", group);
  }
}

void parse_v2_consolidated(std::string_view text, GroupMetadata& group) {
  const auto parsed = json::Document::parse(text, json::Form::consolidated);
  const Value format = parsed.root().at("zarr_consolidated_format");
  if (format.integer(0) != 1) throw format.error(Status::decode, "unknown format", "metadata");
  for (const Value document : parsed.root().at("metadata").expect(Kind::object)) {
    const auto name = document.name();
    const bool is_array = name.ends_with("/.zarray");
    if (!is_array && !name.ends_with("/.zgroup")) continue;
    document.expect(Kind::object);
    add_consolidated(name.substr(0, name.rfind('/')), is_array, group);
  }
}

// Only a shortcut: without it the arrays are searched for.
template <class Parse>
void or_malformed(GroupMetadata& group, Parse parse) {
  try {
    parse();
  } catch (const Error&) {
    group.consolidated_arrays.clear();
    group.consolidated_members.clear();
    group.consolidated_malformed = true;
  }
}

void parse_v3_member(const Value& member, GroupMetadata& group) {
  const auto name = member.name();
  if (name == "attributes") {
    check_attributes(member);
    if (member.is(Kind::object)) parse_image(member, member.find("ome"), group);
  } else if (name == "consolidated_metadata") {
    if (!member.is(Kind::null)) or_malformed(group, [&] { parse_v3_consolidated(member, group); });
  } else if (name != "zarr_format" && name != "node_type") {
    check_unknown_member(member);
  }
}

}  // namespace

std::string consolidated_problem(int zarr_format, std::string_view document) {
  try {
    GroupMetadata group;
    if (zarr_format == 2) {
      parse_v2_consolidated(document, group);
    } else {
      const auto parsed = json::Document::parse(document, json::Form::v3_group);
      if (const auto map = parsed.root().find("consolidated_metadata")) parse_v3_consolidated(*map, group);
    }
  } catch (const Error& e) {
    return formatted("{}{}{}", e.where().pointer, e.where().pointer.empty() ? "" : ": ", e.message());
  }
  return {};
}

GroupMetadata parse_v3_group(std::string_view document) {
  check_document_size(document, Limits::group_document_bytes);
  const auto parsed = json::Document::parse(document, json::Form::v3_group);
  const Value root = parsed.root();
  check_format(root, 3);
  GroupMetadata group;
  const Value type = root.at("node_type");
  const std::string_view kind = type.expect(Kind::string).text();
  if (kind == "array") {
    group.is_array = true;
    return group;
  }
  if (kind != "group")
    throw type.error(Status::decode, formatted("node_type '{}', expected {}", kind, meant(kind)), "metadata");
  for (const Value member : root) parse_v3_member(member, group);
  return group;
}

GroupMetadata parse_v2_group(std::string_view document, std::string_view attributes, std::string_view consolidated) {
  check_document_size(document, Limits::group_document_bytes);
  check_document_size(attributes, Limits::group_document_bytes);
  const auto parsed = json::Document::parse(document, json::Form::v2_group);
  check_format(parsed.root(), 2);
  GroupMetadata group;
  if (!attributes.empty())
    parse_image(json::Document::parse(attributes, json::Form::attributes).root(), std::nullopt, group);
  if (!consolidated.empty())
    or_malformed(group, [&] {
      check_document_size(consolidated, Limits::group_document_bytes);
      parse_v2_consolidated(consolidated, group);
    });
  return group;
}

}  // namespace damacy
