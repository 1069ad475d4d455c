// A part of a sample as its array and its ArraySpec make it: which elements there are, where they go, and how they are
// finished. Pure.
#pragma once

#include <memory>
#include <vector>

#include "damacy/batch/array_spec.h"
#include "damacy/batch/sample.h"
#include "damacy/pipeline/row_axes.h"
#include "damacy/plan/part_placing.h"
#include "damacy/zarr/array.h"
#include "damacy/zarr/array_attributes.h"

namespace damacy {

// An array that was opened, with its attributes where something asks for them.
struct OpenedArray {
  std::shared_ptr<const Array> array;
  std::shared_ptr<const ArrayAttributes> attributes = nullptr;
};

// What is wanted of the array of a part.
struct WantedArray {
  const ArraySpec& spec;
  Dtype dtype;           // of the rows
  ChannelNumbers scale;  // the sample's, else the spec's
  ChannelNumbers offset;
};

// Whether anything but a box, row-major and converted, is wanted.
[[nodiscard]] bool is_plain(const WantedArray& wanted, const Sample::Ranges& aabb) noexcept;
// Whether attributes of arrays are needed: names of axes, CF.
[[nodiscard]] bool needs_attributes(const ArraySpec& spec) noexcept;

// One part: its axes, before it is known where they go.
class PartGeometry {
 public:
  // Throws Error(inval) and Error(decode, "cf").
  PartGeometry(const WantedArray& wanted, const OpenedArray& opened, const Sample::Ranges& aabb);

  const AxisNames& names() const noexcept { return names_; }
  const Dims& extents() const noexcept { return extents_; }
  // Where the part is one of a stack: its index, and how many there are.
  struct Stack {
    std::int64_t index;
    std::int64_t parts;
  };
  // `row`: where its positions go. `base`: elements from the first one of the row to where the layout has the part.
  [[nodiscard]] std::shared_ptr<const PartPlacing> placing(const TurnedRow& row, std::int64_t base,
                                                           std::optional<Stack> stack) const;

 private:
  void take_axes(const Sample::Ranges& aabb);
  void take_channels();
  void take_borders();
  void take_channel_axis();
  void take_attributes();
  bool is_whole(const PartAxis& axis, std::size_t number) const noexcept;
  std::vector<Finish> finishes(std::optional<Stack> stack) const;
  Finish finish_of(std::size_t channel) const;
  bool is_by_channel() const noexcept { return wanted_.scale.by_channel || wanted_.offset.by_channel; }
  void check_channels(const char* name, const ChannelNumbers& numbers, std::int64_t channels) const;

  const WantedArray& wanted_;
  const Array& array_;
  const ArrayAttributes* attributes_;
  AxisNames names_;
  std::vector<PartAxis> axes_;
  Dims extents_;
  std::optional<std::size_t> channel_axis_;
  Dtype from_;
  Finish common_;  // of all channels
};

}  // namespace damacy
