#include "damacy/pipeline/admission.h"

#include <algorithm>
#include <iterator>

#include "damacy/batch/memory_plan.h"
#include "damacy/copy/block_copy.h"
#include "damacy/core/checked.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "damacy/pipeline/named_parts.h"
#include "damacy/pipeline/packed_arrays.h"
#include "damacy/store/mounts.h"

namespace damacy {
namespace {

void check_rank(const Sample::Ranges& aabb, const Dims* extents) {
  const std::size_t rank = aabb.size();
  if (rank > Limits::rank)
    throw Error(Status::rank, formatted("aabb has {} axes, the limit is {}", rank, Limits::rank), "rank");
  if (extents != nullptr && rank != extents->size())
    throw Error(Status::rank, formatted("aabb has {} axes, the first sample had {}", rank, extents->size()), "rank");
}

void check_rank_of_stack(std::size_t axes) {
  if (axes + 1 > Limits::rank)
    throw Error(Status::rank, formatted("a stack of boxes of {} axes exceeds the limit of {} axes", axes, Limits::rank),
                "rank");
}

// Below 0 lies what a border repeats; there is none unless `pads`.
void check_range(std::size_t axis, const AxisRange& range, bool pads) {
  if (!range.indices.empty()) return;
  if (range.step < 1)
    throw Error(Status::inval, formatted("aabb axis {}: step must be >= 1 (got {}): say flip", axis, range.step),
                "aabb");
  const bool is_below = range.start < 0 && !pads;
  if (is_below || range.start >= range.stop)
    throw Error(Status::inval,
                formatted("aabb axis {}: expected 0 <= start < stop, got {} and {}{}", axis, range.start, range.stop,
                          range.start < 0 ? "; negative numbers do not count from the end; ArraySpec(pad=…) lets boxes "
                                            "cross the border"
                                          : ""),
                "aabb");
  constexpr std::int64_t kFar = std::int64_t{1} << 61;
  if (pads && (range.start < -kFar || range.stop > kFar))
    throw Error(Status::inval,
                formatted("aabb axis {}: {} to {} is too far from the array", axis, range.start, range.stop), "aabb");
}

void check_extents(const Dims& got, const Dims* wanted) {
  for (std::size_t axis = 0; wanted != nullptr && axis < got.size(); ++axis)
    if (got[axis] != (*wanted)[axis])
      throw Error(
          Status::inval,
          formatted("aabb axis {}: extent {} differs from the first sample's {}", axis, got[axis], (*wanted)[axis]),
          "extents");
}

Box box_of(const Sample::Ranges& aabb) {
  Box box;
  for (const AxisRange& range : aabb) {
    box.start.push_back(range.start);
    box.stop.push_back(range.stop);
  }
  return box;
}

void check_type(const ArrayMetadata& metadata, const Config& config, Dtype to) {
  if (!has_conversion(metadata.dtype, to))
    throw Error(Status::dtype, formatted("no conversion from {} to {}", name_of(metadata.dtype), name_of(to)), "dtype");
  const auto bytes = static_cast<std::int64_t>(size_of(metadata.dtype));
  if (bytes > element_bytes_allowed(config))
    throw Error(Status::dtype,
                formatted("elements of {} bytes exceed max_bytes_per_element {}", bytes, element_bytes_allowed(config)),
                "dtype");
}

void check_array_rank(const Array& array, std::size_t rank) {
  if (rank != array.rank())
    throw Error(Status::rank,
                formatted("aabb has {} axes, the array has {}: its shape is {}", rank, array.rank(),
                          tuple_text(array.metadata().shape.span())),
                "rank");
}

void check_place(const Array& array, const Box& box) {
  for (std::size_t axis = 0; axis < box.rank(); ++axis)
    if (box.stop[axis] > array.metadata().shape[axis])
      throw Error(Status::inval,
                  formatted("aabb axis {}: stop {} is beyond the array's size {}", axis, box.stop[axis],
                            array.metadata().shape[axis]),
                  "aabb");
  const std::int64_t chunks = count_chunks(array, box);
  if (chunks > static_cast<std::int64_t>(Limits::chunks_per_sample))
    throw Error(Status::inval,
                formatted("the sample touches {} chunks, the limit is {}", chunks, Limits::chunks_per_sample), "limit");
}

void check_chunk(const ArrayMetadata& metadata, const Config& config) {
  const auto bytes = static_cast<std::int64_t>(metadata.chunk_bytes());
  const auto largest = static_cast<std::int64_t>(metadata.largest_decoded_bytes());  // of metadata memory, if no chunk
  if (largest > chunk_bytes_allowed(config))
    throw Error(Status::inval,
                formatted("a decoded chunk of {} bytes exceeds {}{}", largest,
                          config.max_chunk_uncompressed_bytes > 0 ? "max_chunk_uncompressed_bytes " : "the limit of ",
                          chunk_bytes_allowed(config)),
                "limit");
  if (bytes > chunk_bytes_buffers_hold(config))
    throw Error(
        Status::oom,
        formatted(
            "a decoded chunk of {} bytes does not fit: host_buffer_bytes {} and device_buffer_bytes {} must both be at least {}",
            bytes, config.host_buffer_bytes, config.device_buffer_bytes, buffer_bytes_for(bytes)),
        "buffers");
}

// A box of the sample, and how it is called.
struct WantedPart {
  const std::string& uri;
  const Sample::Ranges& aabb;
};

// The parts of one array of the sample.
struct WantedParts {
  std::string name;
  bool is_stacked;
  std::vector<WantedPart> parts;
};

using LayoutPtr = std::shared_ptr<const BatchLayout>;

const ArraySpec& spec_of(const Config& config, std::string_view array) {
  static const ArraySpec kDefault;
  for (const auto& [name, spec] : config.arrays)
    if (name == array) return spec;
  return kDefault;
}

ChannelNumbers numbers_of(std::span<const SampleNumbers> of_sample, std::string_view array,
                          const ChannelNumbers& spec) {
  for (const SampleNumbers& numbers : of_sample)
    if (numbers.name.empty() || numbers.name == array) return numbers.numbers;
  return spec;
}

// As far as they are known; one empty name stands for one array without a name.
std::vector<std::string> names_of(const Config& config, const BatchLayout* layout) {
  std::vector<std::string> names;
  if (layout != nullptr)
    for (const BatchLayout::Rows& rows : layout->arrays()) names.push_back(rows.name);
  else
    for (const NamedArraySpec& array : config.arrays) names.push_back(array.name);
  return names;
}

// In the order of the layout or of Config::arrays, else as the sample has them.
std::vector<WantedParts> wanted_parts(const Sample& sample, const Config& config, const BatchLayout* layout) {
  std::vector<WantedParts> wanted;
  if (sample.parts.empty()) {
    const bool named =
        layout != nullptr ? layout->is_named() : !config.arrays.empty() && !config.arrays.front().name.empty();
    if (named) refuse_names(std::vector<std::string>{""}, names_of(config, layout));
    wanted.push_back({"", false, {{sample.uri, sample.aabb}}});
    return wanted;
  }
  for (const NamedParts& array : parts_by_name(sample, names_of(config, layout))) {
    wanted.push_back({array.name, array.is_stacked(), {}});
    for (const Sample::Part* const part : array.parts) wanted.back().parts.push_back({part->uri, part->aabb});
  }
  return wanted;
}

// One array of a sample, on its way through the checks.
class ArrayAdmission {
 public:
  ArrayAdmission(const WantedParts& parts, const Sample& sample, const Config& config, const BatchLayout* layout,
                 std::size_t number)
      : parts_(parts),
        config_(config),
        wanted_{spec_of(config, parts.name), dtype_of_rows(config, parts.name), 1.0, 0.0},
        turns_(!sample.flip.empty() || !sample.transpose.empty()) {
    wanted_.scale = numbers_of(sample.scale, parts.name, wanted_.spec.scale);
    wanted_.offset = numbers_of(sample.offset, parts.name, wanted_.spec.offset);
    if (layout == nullptr) return;
    rows_ = &layout->arrays()[number];
    extents_ = &layout->parts()[rows_->first_part].extents;
  }

  // Opens and checks the parts.
  void open(const OpenArray& open) {
    if (rows_ != nullptr) check_stack();
    for (std::size_t i = 0; i < parts_.parts.size(); ++i)
      at_part(i, [&](const WantedPart& part) {
        planned_.push_back(admit(part, open));
        check_same_extents(i);
      });
  }

  const std::string& name() const noexcept { return parts_.name; }
  const std::string& uri() const noexcept { return parts_.parts.front().uri; }  // of its first part
  // Of its first part.
  const RowAxes& row_axes() {
    if (!row_axes_) row_axes_.emplace(axes_of(0));
    return *row_axes_;
  }
  BatchLayout::First first() {
    BatchLayout::First first{parts_.name, planned_.front().extents(), planned_.size(), parts_.is_stacked};
    if (wanted_.spec.order) first.row = {row_axes().extents(), row_axes().stored_strides(), row_axes().stack_stride()};
    return first;
  }

  // Says where the elements go, where they are more than a box; then appends the parts.
  void place(std::span<const AxisMove> moves, std::span<const AxisKey> flip, std::vector<PlannedPart>& planned) {
    for (std::size_t i = 0; i < planned_.size(); ++i)
      at_part(i, [&](const WantedPart&) {
        if (geometries_[i] == nullptr) return;
        const RowAxes axes = axes_of(i);
        const auto index = static_cast<std::int64_t>(i);
        std::optional<PartGeometry::Stack> stack;
        if (parts_.is_stacked) stack = {index, static_cast<std::int64_t>(planned_.size())};
        planned_[i].placing = geometries_[i]->placing(turned(axes, moves, flip), index * axes.stack_stride(), stack);
      });
    std::ranges::move(planned_, std::back_inserter(planned));
  }

 private:
  template <class Act>
  void at_part(std::size_t number, Act act) const {
    try {
      act(parts_.parts[number]);
    } catch (const Error& error) {  // may be shared with other samples of the same array
      throw Error(error).at_uri(parts_.parts[number].uri);
    }
  }

  PlannedPart admit(const WantedPart& part, const OpenArray& open) {
    static_cast<void>(file_path_of_uri(part.uri));
    check_rank(part.aabb, extents_);
    const bool pads = !wanted_.spec.pad.empty();
    for (std::size_t axis = 0; axis < part.aabb.size(); ++axis) check_range(axis, part.aabb[axis], pads);
    const bool plain = is_plain(wanted_, part.aabb) && !turns_;
    if (plain) check_extents(box_of(part.aabb).extents(), extents_);
    opened_.push_back(open(part.uri));
    const Array& array = *opened_.back().array;
    check_type(array.metadata(), config_, wanted_.dtype);
    check_array_rank(array, part.aabb.size());
    if (!wanted_.spec.axes.empty()) static_cast<void>(AxisNames(wanted_.spec, {}, array.rank()));  // as many as axes
    geometries_.push_back(plain ? nullptr : std::make_unique<PartGeometry>(wanted_, opened_.back(), part.aabb));
    PlannedPart planned{opened_.back().array, box_of(part.aabb)};
    if (plain) {
      check_place(array, planned.box);
    } else {
      const Dims& extents = geometries_.back()->extents();
      check_extents(extents, extents_);
      planned.box = {Dims(extents.size(), 0), extents};
    }
    check_chunk(array.metadata(), config_);
    if (!wanted_.spec.cf) warn_if_packed(array);
    return planned;
  }

  RowAxes axes_of(std::size_t part) const {
    const std::optional<std::int64_t> stack =
        parts_.is_stacked ? std::optional(static_cast<std::int64_t>(planned_.size())) : std::nullopt;
    const Dims extents = planned_[part].extents();
    if (geometries_[part] != nullptr) return {wanted_.spec, geometries_[part]->names(), extents, stack};
    const OpenedArray& opened = opened_[part];
    return {wanted_.spec,
            {wanted_.spec, opened.attributes ? opened.attributes->dims : DimensionNames{}, opened.array->rank()},
            extents,
            stack};
  }

  void check_stack() const {
    if (parts_.is_stacked != rows_->stacked || parts_.parts.size() != rows_->parts)
      throw Error(
          Status::inval,
          formatted("{} of {} parts differs from the first sample's {} of {}", parts_.is_stacked ? "a stack" : "a box",
                    parts_.parts.size(), rows_->stacked ? "stack" : "box", rows_->parts),
          "extents");
  }

  // In a stack of the first sample all parts have the extents of part 0.
  void check_same_extents(std::size_t part) const {
    const Dims extents = planned_[part].extents(), first = planned_.front().extents();
    if (extents != first)
      throw Error(Status::inval,
                  formatted("arrays['{}']: part {} has extents {}, part 0 {}", parts_.name, part,
                            tuple_text(extents.span()), tuple_text(first.span())),
                  "extents");
    if (parts_.is_stacked) check_rank_of_stack(extents.size());
  }

  const WantedParts& parts_;
  const Config& config_;
  WantedArray wanted_;
  const bool turns_;
  const BatchLayout::Rows* rows_ = nullptr;
  const Dims* extents_ = nullptr;
  std::vector<OpenedArray> opened_;
  std::vector<std::unique_ptr<PartGeometry>> geometries_;  // null: a plain box
  std::vector<PlannedPart> planned_;
  std::optional<RowAxes> row_axes_;
};

using Arrays = std::vector<std::unique_ptr<ArrayAdmission>>;

// Errors have the name of the array if it has one, and a uri: that of its first part where no other is known.
template <class Act>
void at_array(const ArrayAdmission& array, Act act) {
  try {
    act();
  } catch (const Error& error) {
    Error named = error;
    if (!array.name().empty()) named.at_array(array.name());
    throw named.at_uri(array.uri());
  }
}

// An axis that no array has is a mistake; one that some arrays lack is left out of these.
void check_axes(const char* what, std::span<const AxisKey> keys, const Arrays& arrays) {
  for (const AxisKey& key : keys) {
    bool is_known = false;
    std::string all;
    for (const auto& array : arrays)
      at_array(*array, [&] {
        is_known |= array->row_axes().find(key).has_value();
        all += formatted("; {} has {}", array->name().empty() ? "the array" : array->name(), array->row_axes().text());
      });
    if (!is_known)
      throw Error(Status::inval, formatted("{}: no array has an axis {}{}", what, text_of(key), all), "arguments");
  }
}

// An array that has some of the axes, and more than one, would turn otherwise than those that have all.
void check_turns_alike(const Sample& sample, const Arrays& arrays) {
  const auto wanted = static_cast<std::ptrdiff_t>(sample.transpose.size());
  for (const auto& array : arrays)
    at_array(*array, [&] {
      const std::ptrdiff_t there = std::ranges::count_if(
          sample.transpose, [&](const AxisKey& key) { return array->row_axes().find(key).has_value(); });
      if (there > 1 && there < wanted)
        throw Error(Status::inval,
                    formatted("transpose: the array has {} of the {} axes, and would turn otherwise than an array with "
                              "all of them: transpose only axes that both have; it has {}",
                              there, wanted, array->row_axes().text()),
                    "arguments");
    });
}

// The places are those of the first array that has all of the axes.
std::vector<AxisMove> moves_of(const Sample& sample, const Arrays& arrays) {
  if (sample.transpose.empty()) return {};
  check_turns_alike(sample, arrays);
  for (const auto& array : arrays) {
    const bool has_all = std::ranges::all_of(
        sample.transpose, [&](const AxisKey& key) { return array->row_axes().find(key).has_value(); });
    if (has_all) return moves_of(sample.transpose, array->row_axes());
  }
  throw Error(Status::inval, "transpose: no array has all of these axes", "arguments");
}

void check_numbers(const char* what, std::span<const SampleNumbers> numbers, const Arrays& arrays) {
  for (const SampleNumbers& of : numbers) {
    const bool is_known =
        of.name.empty() || std::ranges::any_of(arrays, [&](const auto& array) { return array->name() == of.name; });
    if (!is_known) throw Error(Status::inval, formatted("{}: the sample has no array '{}'", what, of.name), "names");
  }
}

Dims extents_of(const Sample::Ranges& aabb, bool pads, bool is_stacked) {
  check_rank(aabb, nullptr);
  if (is_stacked) check_rank_of_stack(aabb.size());
  Dims extents;
  for (std::size_t axis = 0; axis < aabb.size(); ++axis) {
    const AxisRange& range = aabb[axis];
    check_range(axis, range, pads);
    extents.push_back(PartAxis{range.start, range.stop, range.step, range.indices}.extent());
  }
  return extents;
}

// In place of an array that could not be opened stands one of zeros.
PlannedPart lost_part(const std::string& uri, const Dims& extents) {
  ArrayMetadata zeros;
  zeros.shape = zeros.chunk_shape = zeros.shard_shape = extents;
  for (std::size_t axis = 0; axis < extents.size(); ++axis)
    zeros.storage_order.push_back(static_cast<std::int64_t>(axis));
  PlannedPart part{
      std::make_shared<const Array>(uri, nullptr, "", "", Stamp{}, std::move(zeros), std::vector<std::string>{}),
      {Dims(extents.size(), 0), extents}};
  part.is_lost = true;
  return part;
}

}  // namespace

bool needs_attributes(const Config& config) noexcept {
  return std::ranges::any_of(config.arrays, [](const NamedArraySpec& array) { return needs_attributes(array.spec); });
}

bool needs_attributes(const Sample& sample) noexcept {
  const auto has_name = [](const AxisKey& key) { return !key.name.empty(); };
  const auto by_channel = [](const SampleNumbers& numbers) { return numbers.numbers.by_channel; };
  return std::ranges::any_of(sample.flip, has_name) || std::ranges::any_of(sample.transpose, has_name) ||
         std::ranges::any_of(sample.scale, by_channel) || std::ranges::any_of(sample.offset, by_channel);
}

Admitted admit(const Sample& sample, const Config& config, const LayoutPtr& layout, const OpenArray& open) {
  const std::vector<WantedParts> wanted = wanted_parts(sample, config, layout.get());
  Arrays arrays;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    arrays.push_back(std::make_unique<ArrayAdmission>(wanted[i], sample, config, layout.get(), i));
    at_array(*arrays.back(), [&] { arrays.back()->open(open); });
  }
  check_axes("flip", sample.flip, arrays);
  check_axes("transpose", sample.transpose, arrays);
  check_numbers("scale", sample.scale, arrays);
  check_numbers("offset", sample.offset, arrays);
  const std::vector<AxisMove> moves = moves_of(sample, arrays);
  Admitted admitted{{{}, sample.origin}, layout};
  std::vector<BatchLayout::First> first;
  for (const auto& array : arrays)
    at_array(*array, [&] {
      if (!layout) first.push_back(array->first());
      array->place(moves, sample.flip, admitted.sample.parts);
    });
  if (!layout) admitted.layout = std::make_shared<const BatchLayout>(config, first);
  return admitted;
}

std::optional<Admitted> admit_lost(const Sample& sample, const Config& config, const LayoutPtr& layout,
                                   const Error& failure) {
  Admitted admitted{{{}, sample.origin, failure}, layout};
  if (!layout) {
    std::vector<BatchLayout::First> first;
    for (const WantedParts& array : wanted_parts(sample, config, nullptr)) {
      const ArraySpec& spec = spec_of(config, array.name);
      if (spec.order || !spec.channels.empty()) return std::nullopt;  // these need the array's axes
      first.push_back({array.name, extents_of(array.parts.front().aabb, !spec.pad.empty(), array.is_stacked),
                       array.parts.size(), array.is_stacked});
    }
    admitted.layout = std::make_shared<const BatchLayout>(config, first);
  }
  for (const BatchLayout::Part& part : admitted.layout->parts())
    admitted.sample.parts.push_back(lost_part(failure.where().uri, part.extents));
  return admitted;
}

PlannedPart admit_box(const Sample& sample, const Config& config, const OpenArray& open) {
  return std::move(admit(sample, config, nullptr, open).sample.parts.front());
}

}  // namespace damacy
