// What the attributes of OME-NGFF groups say: images with axes and levels, channels, labels, plates and wells. Values
// only; knows no documents.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace damacy {

// What is wrong, and where in the document.
struct NgffProblem {
  std::string pointer;
  std::string message;
};

struct NgffAxis {
  std::optional<std::string> name, type, unit;
};

// The centre of voxel i lies at scale * i + translation on each axis.
struct NgffLevel {
  std::string path;
  std::vector<double> scale, translation;  // one an axis; empty: unknown
  std::optional<NgffProblem> problem;      // why they cannot be used
};

struct NgffImage {
  std::string name;
  std::optional<std::string> version;
  // Up to 0.3: the levels have no transformations, and their shapes give the scale.
  bool has_transformations = true;
  std::vector<NgffAxis> axes;
  std::vector<NgffLevel> levels;
};

struct NgffChannel {
  std::optional<std::string> label, color;
  std::optional<std::array<double, 2>> window;  // start and end
};

struct NgffAcquisition {
  std::int64_t id = 0;
  std::optional<std::string> name;
};

struct NgffPlate {
  std::optional<std::string> name;
  std::vector<std::string> rows, columns, wells;  // wells: paths, "A/1"
  std::optional<std::int64_t> field_count;
  std::vector<NgffAcquisition> acquisitions;
};

struct NgffField {
  std::string path;
  std::optional<std::int64_t> acquisition;
};

struct Ngff {
  std::vector<NgffImage> images;
  std::vector<NgffChannel> channels;
  std::vector<std::string> labels;          // of a group `labels`
  bool is_label = false;                    // has `image-label`
  std::optional<std::string> label_source;  // a path, relative to the group
  std::optional<NgffPlate> plate;
  std::vector<NgffField> fields;  // of a well
  std::vector<NgffProblem> problems;
};

}  // namespace damacy
