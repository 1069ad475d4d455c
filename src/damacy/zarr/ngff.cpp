#include "damacy/zarr/ngff.h"

#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "damacy/zarr/detail/document.h"
#include "damacy/zarr/detail/ngff_image.h"
#include "damacy/zarr/detail/ngff_json.h"

namespace damacy {
namespace {

using json::Kind;
using json::Value;
using ngff::integer_of;
using ngff::member;
using ngff::path_of;
using ngff::Problems;
using ngff::text_of;

std::optional<std::array<double, 2>> parse_window(const Value& channel, Problems& problems) {
  const auto window = member(channel, "window", Kind::object, problems);
  if (!window) return std::nullopt;
  const auto bound = [&](std::string_view name) {
    const auto value = member(*window, name, Kind::number, problems);
    return value ? ngff::finite_number(*value) : std::nullopt;
  };
  const auto start = bound("start"), end = bound("end");
  if (!start || !end) return std::nullopt;
  return std::array{*start, *end};
}

void parse_channels(const Value& attributes, Ngff& out, Problems& problems) {
  const auto omero = member(attributes, "omero", Kind::object, problems);
  const auto channels = omero ? member(*omero, "channels", Kind::array, problems) : std::nullopt;
  if (!channels) return;
  for (const Value channel : *channels)
    out.channels.push_back(
        {text_of(channel, "label", problems), text_of(channel, "color", problems), parse_window(channel, problems)});
}

void parse_label_names(const Value& attributes, Ngff& out, Problems& problems) {
  if (const auto labels = member(attributes, "labels", Kind::array, problems))
    for (const Value label : *labels) {
      if (label.is(Kind::string) && is_path_below(label.text()))
        out.labels.emplace_back(label.text());
      else
        problems.add(label, "expected the path of a label image");
    }
}

void parse_label(const Value& attributes, Ngff& out, Problems& problems) {
  const auto label = member(attributes, "image-label", Kind::object, problems);
  if (!label) return;
  out.is_label = true;
  if (const auto source = member(*label, "source", Kind::object, problems))
    out.label_source = text_of(*source, "image", problems);
}

// One text member of each object in a list.
std::vector<std::string> texts_of(const Value& object, std::string_view list_name, std::string_view name,
                                  Problems& problems) {
  std::vector<std::string> texts;
  if (const auto list = member(object, list_name, Kind::array, problems))
    for (const Value item : *list) {
      if (auto found = path_of(item, name, problems))
        texts.push_back(std::move(*found));
      else
        problems.add(item, formatted("member '{}' cannot be used", name));
    }
  return texts;
}

void parse_plate(const Value& attributes, Ngff& out, Problems& problems) {
  const auto plate = member(attributes, "plate", Kind::object, problems);
  if (!plate) return;
  NgffPlate& found = out.plate.emplace();
  found.name = text_of(*plate, "name", problems);
  found.rows = texts_of(*plate, "rows", "name", problems);
  found.columns = texts_of(*plate, "columns", "name", problems);
  found.wells = texts_of(*plate, "wells", "path", problems);
  found.field_count = integer_of(*plate, "field_count", problems);
  if (const auto list = member(*plate, "acquisitions", Kind::array, problems))
    for (const Value item : *list)
      if (const auto id = integer_of(item, "id", problems))
        found.acquisitions.push_back({*id, text_of(item, "name", problems)});
}

void parse_well(const Value& attributes, Ngff& out, Problems& problems) {
  const auto well = member(attributes, "well", Kind::object, problems);
  const auto images = well ? member(*well, "images", Kind::array, problems) : std::nullopt;
  if (!images) return;
  for (const Value image : *images)
    if (auto path = path_of(image, "path", problems))
      out.fields.push_back({std::move(*path), integer_of(image, "acquisition", problems)});
}

void parse_images(const Value& attributes, const std::optional<std::string>& version, Ngff& out, Problems& problems) {
  const auto multiscales = member(attributes, "multiscales", Kind::array, problems);
  if (!multiscales) return;
  for (const Value multiscale : *multiscales) out.images.push_back(ngff::parse_image(multiscale, version, problems));
}

void parse_attributes(const Value& attributes, Ngff& out) {
  Problems problems(out.problems);
  const auto ome = member(attributes, "ome", Kind::object, problems);
  const auto version = ome ? text_of(*ome, "version", problems) : std::nullopt;
  // Members inside `ome` take precedence one by one, as for the array that is opened.
  const auto among = [&](std::string_view name) { return ome && member(*ome, name) ? *ome : attributes; };
  const auto inner = ome ? member(*ome, "multiscales") : std::nullopt;
  const bool is_inside = inner && inner->is(Kind::array) && inner->size() > 0;
  parse_images(is_inside ? *ome : attributes, version, out, problems);
  parse_channels(among("omero"), out, problems);
  parse_label_names(among("labels"), out, problems);
  parse_label(among("image-label"), out, problems);
  parse_plate(among("plate"), out, problems);
  parse_well(among("well"), out, problems);
}

}  // namespace

Ngff parse_ngff(std::string_view document, int zarr_format) {
  check_document_size(document, Limits::group_document_bytes);
  Ngff out;
  if (document.empty()) return out;
  const auto form = zarr_format == 3 ? json::Form::ngff_group : json::Form::ngff_attributes;
  const auto parsed = json::Document::parse(document, form);
  if (zarr_format != 3)
    parse_attributes(parsed.root(), out);
  else if (const auto attributes = member(parsed.root(), "attributes"))
    parse_attributes(*attributes, out);
  return out;
}

}  // namespace damacy
