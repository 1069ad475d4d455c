#include "damacy/pipeline/part_geometry.h"

#include <algorithm>
#include <cstring>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"

namespace damacy {
namespace {

[[noreturn]] void refuse(std::string why, const char* reason = "arguments") {
  throw Error(Status::inval, std::move(why), reason);
}

bool has_name(const std::optional<AxisKey>& key) noexcept {
  return key && !key->name.empty();
}

// The type that `_Unsigned` makes of an integer type.
Dtype reinterpreted(Dtype dtype, bool is_unsigned) noexcept {
  constexpr Dtype kPairs[][2] = {
      {Dtype::i8, Dtype::u8}, {Dtype::i16, Dtype::u16}, {Dtype::i32, Dtype::u32}, {Dtype::i64, Dtype::u64}};
  for (const auto& [with_sign, without] : kPairs)
    if (dtype == with_sign || dtype == without) return is_unsigned ? without : with_sign;
  return dtype;
}

// A zero is missing with either sign, a NaN whatever it holds.
void add_missing(Finish& finish, const FillBytes& value, Dtype dtype) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, value.data(), size_of(dtype));
  if (finish_detail::is_nan(bits, dtype)) {
    finish.is_missing_nan = true;
    return;
  }
  const auto add = [&](std::uint64_t one) {
    if (finish.missing_count < Finish::kMissing) finish.missing[finish.missing_count++] = one;
  };
  add(bits);
  const std::uint64_t sign = std::uint64_t{1} << (8 * size_of(dtype) - 1);
  if (is_float(dtype) && (bits & ~sign) == 0) add(bits ^ sign);
}

std::uint64_t plain_nan(Dtype dtype) {
  return bits_of(Number(std::numeric_limits<double>::quiet_NaN()), dtype);
}

// Only what changes something makes a finish.
bool does_something(const Finish& finish, Dtype from, Dtype to) noexcept {
  const bool rounds = finish.is_rounded && is_float(from) && !is_float(to);
  return finish.computes() || finish.has_low || finish.has_high || finish.has_missing() || rounds;
}

}  // namespace

bool is_plain(const WantedArray& wanted, const Sample::Ranges& aabb) noexcept {
  const ArraySpec& spec = wanted.spec;
  const bool is_box =
      std::ranges::all_of(aabb, [](const AxisRange& axis) { return axis.step == 1 && axis.indices.empty(); });
  return is_box && spec.cf != true && wanted.scale.is(1) && wanted.offset.is(0) && !spec.clip_low && !spec.clip_high &&
         spec.rounding == Rounding::truncate && spec.pad.empty() && spec.channels.empty();
}

bool needs_attributes(const ArraySpec& spec) noexcept {
  if (spec.cf == true) return true;
  if (!spec.axes.empty()) return false;
  const bool by_channel = spec.scale.by_channel || spec.offset.by_channel || !spec.channels.empty();
  return (by_channel && !spec.channel_axis) || has_name(spec.channel_axis) ||
         std::ranges::any_of(spec.pad, [](const Pad& pad) { return has_name(pad.axis); }) ||
         (spec.order && std::ranges::any_of(*spec.order, has_name));
}

PartGeometry::PartGeometry(const WantedArray& wanted, const OpenedArray& opened, const Sample::Ranges& aabb)
    : wanted_(wanted),
      array_(*opened.array),
      attributes_(opened.attributes.get()),
      names_(wanted.spec, attributes_ != nullptr ? attributes_->dims : DimensionNames{}, array_.rank()),
      from_(array_.dtype()) {
  take_borders();
  take_channel_axis();
  take_axes(aabb);
  take_channels();
  for (const PartAxis& axis : axes_) extents_.push_back(axis.extent());
  take_attributes();
}

void PartGeometry::take_borders() {
  axes_.resize(array_.rank());
  for (const bool of_one : {false, true})
    for (const Pad& pad : wanted_.spec.pad) {
      if (pad.axis.has_value() != of_one) continue;
      const std::size_t only = of_one ? names_.find(*pad.axis, "pad") : 0;
      for (std::size_t i = 0; i < axes_.size(); ++i) {
        if (of_one && i != only) continue;
        axes_[i].border = pad.border;
        if (pad.border == Border::constant) axes_[i].constant = bits_of(pad.value, wanted_.dtype);
      }
    }
}

void PartGeometry::take_channel_axis() {
  if (wanted_.spec.channel_axis) {
    channel_axis_ = names_.find(*wanted_.spec.channel_axis, "channel_axis");
    return;
  }
  ArrayAttributes named;
  if (attributes_ != nullptr) named.axis_types = attributes_->axis_types;
  for (std::size_t i = 0; i < names_.rank(); ++i) named.dims.push_back(names_[i]);
  channel_axis_ = named.channel_axis();
}

void PartGeometry::take_axes(const Sample::Ranges& aabb) {
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    const AxisRange& range = aabb[i];
    PartAxis& axis = axes_[i];
    axis.indices = range.indices;
    axis.start = range.start;
    axis.stop = range.stop;
    axis.step = range.step;
    // A range is its elements: its stop may lie beyond the array if they do not.
    if (range.step > 1) axis.stop = range.start + (range.stop - range.start - 1) / range.step * range.step + 1;
    if (!axis.indices.empty()) {
      if (axis.indices.size() > Limits::indices_per_axis)
        refuse(formatted("aabb axis {}: {} indices, the limit is {}", i, axis.indices.size(), Limits::indices_per_axis),
               "limit");
      continue;
    }
    const std::int64_t size = array_.shape()[i];
    if (axis.border == Border::none && axis.stop > size)
      refuse(formatted("aabb axis {}: stop {} is beyond the array's size {}", i, axis.stop, size), "aabb");
  }
}

bool PartGeometry::is_whole(const PartAxis& axis, std::size_t number) const noexcept {
  return axis.indices.empty() && axis.start == 0 && axis.step == 1 && axis.stop == array_.shape()[number];
}

void PartGeometry::take_channels() {
  if (wanted_.spec.channels.empty()) return;
  if (!channel_axis_) refuse("channels: the array has no channel axis: say ArraySpec(channel_axis=…)");
  PartAxis& axis = axes_[*channel_axis_];
  if (!is_whole(axis, *channel_axis_))
    refuse(formatted("channels: the box must be whole on axis {}, which has {} elements", *channel_axis_,
                     array_.shape()[*channel_axis_]),
           "aabb");
  for (const std::int64_t channel : wanted_.spec.channels)
    if (channel < 0 || channel >= array_.shape()[*channel_axis_])
      refuse(formatted("channels: {} is not below the axis's {}", channel, array_.shape()[*channel_axis_]));
  axis.indices = wanted_.spec.channels;
}

void PartGeometry::take_attributes() {
  Finish& finish = common_;
  const ArraySpec& spec = wanted_.spec;
  const bool unpacks = spec.cf == true && attributes_ != nullptr;
  const CfAttributes cf = unpacks ? attributes_->usable_cf() : CfAttributes{};
  if (cf.is_unsigned) from_ = reinterpreted(from_, *cf.is_unsigned);
  const Dtype to = wanted_.dtype;
  finish.is_packed = cf.scale_factor || cf.add_offset;
  finish.is_scaled = !wanted_.scale.is(1) || !wanted_.offset.is(0);
  finish.is_wide = finish.is_packed || !is_exact_in_f32(from_) || !is_narrow(to);
  if (finish.is_packed) {
    finish.unpack_scale = cf.scale_factor.value_or(1);
    finish.unpack_offset = cf.add_offset.value_or(0);
  }
  finish.is_rounded = spec.rounding == Rounding::nearest;
  finish.has_low = spec.clip_low.has_value();
  finish.has_high = spec.clip_high.has_value();
  if (spec.clip_low) finish.low = bits_of(*spec.clip_low, to);
  if (spec.clip_high) finish.high = bits_of(*spec.clip_high, to);
  if (cf.missing.empty()) return;
  for (const FillBytes& value : cf.missing) add_missing(finish, value, cf.missing_type);
  if (!spec.missing && !is_float(to))
    refuse(formatted("missing values of the array have no place in {}: say ArraySpec(missing=…)", short_name_of(to)),
           "cf");
  finish.replacement = spec.missing ? bits_of(*spec.missing, to) : plain_nan(to);
}

Finish PartGeometry::finish_of(std::size_t channel) const {
  Finish finish = common_;
  finish.scale = wanted_.scale.of(channel);
  finish.offset = wanted_.offset.of(channel);
  if (!finish.is_wide) {
    finish.scale = static_cast<float>(finish.scale);
    finish.offset = static_cast<float>(finish.offset);
  }
  return finish;
}

void PartGeometry::check_channels(const char* name, const ChannelNumbers& numbers, std::int64_t channels) const {
  if (numbers.by_channel && static_cast<std::int64_t>(numbers.values.size()) != channels)
    refuse(formatted("{} has {} numbers, the channel axis {}", name, numbers.values.size(), channels));
}

// One, or one a position of the channel axis; none where nothing is to be done.
std::vector<Finish> PartGeometry::finishes(std::optional<Stack> stack) const {
  if (!does_something(common_, from_, wanted_.dtype)) return {};
  if (!is_by_channel()) return {finish_of(0)};
  const bool is_stack = stack && !wanted_.spec.channel_axis;
  if (!is_stack && !channel_axis_)
    refuse(formatted("{}: the array has no channel axis: say ArraySpec(channel_axis=…)",
                     wanted_.scale.by_channel ? "scale" : "offset"));
  const std::int64_t channels = is_stack ? stack->parts : extents_[*channel_axis_];
  check_channels("scale", wanted_.scale, channels);
  check_channels("offset", wanted_.offset, channels);
  if (is_stack) return {finish_of(static_cast<std::size_t>(stack->index))};
  std::vector<Finish> all;
  for (std::int64_t i = 0; i < channels; ++i) all.push_back(finish_of(static_cast<std::size_t>(i)));
  return all;
}

std::shared_ptr<const PartPlacing> PartGeometry::placing(const TurnedRow& row, std::int64_t base,
                                                         std::optional<Stack> stack) const {
  std::vector<Finish> all = finishes(stack);
  const auto bytes = static_cast<std::int64_t>(size_of(wanted_.dtype));
  std::vector<PartAxis> axes = axes_;
  for (std::size_t i = 0; i < axes.size(); ++i) axes[i].stride = row.strides[i] * bytes;
  if (all.size() > 1) axes[*channel_axis_].has_own_finishes = true;
  const std::int64_t begin = row.begin + (stack ? stack->index * row.stack_stride : 0) - base;
  return std::make_shared<const PartPlacing>(array_.shape(), array_.metadata().chunk_shape, axes, begin * bytes,
                                             std::move(all), from_, wanted_.dtype);
}

}  // namespace damacy
