#include "damacy/zarr/detail/json_zone.h"

#include <algorithm>
#include <iterator>

namespace damacy::json {
namespace {

// Content beyond these limits is checked but not kept. No writer reaches them within the limit on documents.
constexpr std::uint32_t kItemsKept = 64;  // of a list in an array's document: twice the limits on axes and codecs
constexpr std::uint32_t kDatasetsKept = 4096;
constexpr std::uint32_t kNgffItemsKept = 4096;
constexpr std::uint32_t kAxesKept = 33;  // one more than an array has
constexpr std::uint32_t kDocumentsKept = 1 << 20;

bool is_ngff_member(std::string_view name) noexcept {
  constexpr std::string_view kNames[] = {"multiscales", "omero", "image-label", "labels", "plate", "well", "version"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

Zone zone_of_ngff_attribute(std::string_view name) noexcept {
  if (name == "ome") return Zone::ngff_attributes;
  return is_ngff_member(name) ? Zone::ngff : Zone::free;
}

bool is_image_mark(std::string_view name) noexcept {
  return name == "plate" || name == "well" || name == "bioformats2raw.layout";
}

Zone scalar_if(bool wanted) noexcept {
  return wanted ? Zone::scalar : Zone::dropped;
}

Zone zone_of_attribute(std::string_view name) noexcept {
  if (name == "multiscales") return Zone::multiscales;
  return is_image_mark(name) ? Zone::free_scalar : Zone::free;
}

bool is_understood_attribute(std::string_view name) noexcept {
  constexpr std::string_view kNames[] = {"scale_factor",  "add_offset", "_FillValue",
                                         "missing_value", "_Unsigned",  "_ARRAY_DIMENSIONS"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

Zone zone_of_multiscale_member(std::string_view name) noexcept {
  if (name == "datasets") return Zone::datasets;
  if (name == "version") return Zone::free_scalar;
  return name == "axes" ? Zone::axes : Zone::free;
}

Zone zone_of_node_member(std::string_view name, Zone other) noexcept {
  if (name == "attributes") return Zone::attributes;
  return name == "consolidated_metadata" ? Zone::consolidated : other;
}

Zone zone_of_group_member(std::string_view name) noexcept {
  const bool is_known = name == "zarr_format" || name == "node_type";
  return zone_of_node_member(name, is_known ? Zone::scalar : Zone::extension);
}

Zone zone_of_consolidated_member(std::string_view name) noexcept {
  return name == "metadata" ? Zone::map : Zone::scalar;
}

Zone zone_of_v2_document(std::string_view name) noexcept {
  return name == ".zattrs" || name.ends_with("/.zattrs") ? Zone::free : Zone::scalar;
}

}  // namespace

bool is_dropped(Zone zone) noexcept {
  return zone == Zone::dropped || zone == Zone::free;
}

bool limits_text(Zone zone) noexcept {
  switch (zone) {
    case Zone::free:
    case Zone::free_scalar:
    case Zone::attributes:
    case Zone::ome:
    case Zone::array_attributes:
    case Zone::attribute:
    case Zone::axes:
    case Zone::axis:
    case Zone::multiscales:
    case Zone::multiscale:
    case Zone::datasets:
    case Zone::dataset:
    case Zone::ngff_group:
    case Zone::ngff_attributes:
    case Zone::ngff:
      return false;
    default:
      return true;
  }
}

bool limits_members(Zone zone) noexcept {
  return limits_text(zone) && zone != Zone::map && zone != Zone::v2_map;
}

Zone zone_of_root(Form form) noexcept {
  switch (form) {
    case Form::v3_array:
      return Zone::v3_array;
    case Form::v3_group:
      return Zone::v3_group;
    case Form::v2_group:
      return Zone::v2_group;
    case Form::attributes:
      return Zone::attributes;
    case Form::array_attributes:
      return Zone::array_attributes;
    case Form::attribute:
      return Zone::attribute;
    case Form::ngff_group:
      return Zone::ngff_group;
    case Form::ngff_attributes:
      return Zone::ngff_attributes;
    case Form::consolidated:
      return Zone::v2_consolidated;
    case Form::plain:
      break;
  }
  return Zone::plain;
}

Zone zone_of_member(Zone parent, std::string_view name, std::uint32_t index) noexcept {
  switch (parent) {
    case Zone::plain:
      return Zone::plain;
    case Zone::v3_array:
      return name == "attributes" ? Zone::array_attributes : zone_of_node_member(name, Zone::plain);
    case Zone::array_attributes:
      return is_understood_attribute(name) ? Zone::attribute : Zone::free;
    case Zone::v3_group:
      return zone_of_group_member(name);
    case Zone::v2_group:
      return Zone::scalar;
    case Zone::extension:
      return scalar_if(name == "must_understand");
    case Zone::attributes:
      return name == "ome" ? Zone::ome : zone_of_attribute(name);
    case Zone::ome:
      return zone_of_attribute(name);
    case Zone::multiscale:
      return zone_of_multiscale_member(name);
    case Zone::axis:
      return name == "name" || name == "type" ? Zone::free_scalar : Zone::free;
    case Zone::dataset:
      return name == "path" ? Zone::free_scalar : Zone::free;
    case Zone::ngff_group:
      return name == "attributes" ? Zone::ngff_attributes : Zone::free;
    case Zone::ngff_attributes:
      return zone_of_ngff_attribute(name);
    case Zone::ngff:
      return Zone::ngff;
    case Zone::consolidated:
      return zone_of_consolidated_member(name);
    case Zone::map:
      return index < kDocumentsKept ? Zone::mapped : Zone::dropped;
    case Zone::mapped:
      return name == "attributes" ? Zone::free : scalar_if(name == "node_type");
    case Zone::v2_consolidated:
      return name == "metadata" ? Zone::v2_map : Zone::scalar;
    case Zone::v2_map:
      return index < kDocumentsKept ? zone_of_v2_document(name) : Zone::dropped;
    default:
      return limits_text(parent) ? Zone::dropped : Zone::free;
  }
}

Zone zone_of_item(Zone parent, std::uint32_t index) noexcept {
  switch (parent) {
    case Zone::plain:
      return index < kItemsKept ? Zone::plain : Zone::dropped;
    case Zone::multiscales:
      return index == 0 ? Zone::multiscale : Zone::free;
    case Zone::datasets:
      return index < kDatasetsKept ? Zone::dataset : Zone::free;
    case Zone::attribute:
      return index < kItemsKept ? Zone::free_scalar : Zone::free;
    case Zone::ngff:
      return index < kNgffItemsKept ? Zone::ngff : Zone::free;
    case Zone::axes:
      return index < kAxesKept ? Zone::axis : Zone::free;
    default:
      return limits_text(parent) ? Zone::dropped : Zone::free;
  }
}

}  // namespace damacy::json
