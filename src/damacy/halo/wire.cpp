// Turns are strides, exchanged components the choice of a field: nothing here touches an element.
#include "damacy/halo/wire.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "damacy/core/checked.h"
#include "damacy/core/error.h"
#include "damacy/core/text.h"

namespace damacy::halo {
namespace {

constexpr std::int64_t kNativeAlignment = 16;  // bytes

View view_of(const Spec& spec) {
  View view;
  view.extents = spec.box.extents();
  view.strides = spec.field.strides;
  for (std::size_t axis = 0; axis < view.extents.size(); ++axis) {
    const auto step = checked_mul(spec.box.start[axis], spec.field.strides[axis]);
    const auto offset = step ? checked_add(view.offset, *step) : std::nullopt;
    if (!offset) throw Error(Status::inval, "an offset is out of range", "bounds");
    view.offset = *offset;
  }
  return view;
}

void flip(View& view, int axis) {
  const auto i = static_cast<std::size_t>(axis);
  if (view.extents[i] > 0) view.offset += (view.extents[i] - 1) * view.strides[i];
  view.strides[i] = -view.strides[i];
}

// One component of a slot: which of the pair is read, and whether its sign changes.
struct Component {
  bool from_y;
  bool negate;
};

// The x and the y slot of a vector that is turned by `quarters`.
std::pair<Component, Component> mixed(int quarters) {
  switch (quarters) {
    case 1:
      return {{true, false}, {false, true}};
    case 2:
      return {{false, true}, {true, true}};
    case 3:
      return {{true, true}, {false, false}};
    default:
      return {{false, false}, {true, false}};
  }
}

int modulo_4(int quarters) {
  return ((quarters % 4) + 4) % 4;
}

class Writer {
 public:
  Writer(const Message& message, Direction direction, bool adjoint, std::uint32_t first_slot)
      : message_(message), direction_(direction), adjoint_(adjoint), first_slot_(first_slot) {}

  // Returns the elements of the buffer.
  std::int64_t write(std::vector<copy::Slot>& slots, std::vector<copy::Copy>& copies) {
    const bool fields_written = (direction_ == Direction::unpack) != adjoint_;
    for (const auto* specs : {&message_.x, &message_.y})
      for (const Spec& spec : *specs)
        slots.push_back({spec.field.dtype, spec.field.shape, spec.field.strides, fields_written});
    for (std::uint32_t i = 0; i < message_.x.size(); ++i) add_spec(i, copies);
    const Dtype dtype = message_.x.empty() ? Dtype::u8 : message_.x[0].field.dtype;
    const auto bytes = static_cast<std::int64_t>(size_of(dtype));
    slots.push_back({dtype, {end_ / bytes}, {bytes}, !fields_written});
    return end_ / bytes;
  }

 private:
  const Spec& spec(bool y, std::uint32_t i) const { return y ? message_.y[i] : message_.x[i]; }

  void add_spec(std::uint32_t i, std::vector<copy::Copy>& copies) {
    const int quarters = direction_ == Direction::pack ? modulo_4(-modulo_4(message_.x[i].rotation)) : 0;
    if (!message_.is_vector) return add_block(i, false, {false, false}, quarters, copies);
    const auto [x, y] = mixed(quarters);
    add_block(i, false, x, quarters, copies);
    add_block(i, true, y, quarters, copies);
  }

  void add_block(std::uint32_t i, bool y_slot, Component component, int quarters, std::vector<copy::Copy>& copies) {
    const Spec& read = spec(component.from_y, i);
    const View view = turned(view_of(read), read.field.i_axis, read.field.j_axis, quarters);
    const std::int64_t bytes = static_cast<std::int64_t>(size_of(read.field.dtype));
    if (message_.wire == Wire::native) end_ = round_up_to(end_);
    copy::Copy copy;
    copy.extents = view.extents;
    copy.op.negate = component.negate;
    copy.src = {first_slot_ + i + (component.from_y ? static_cast<std::uint32_t>(message_.x.size()) : 0), view.offset,
                view.strides};
    copy.dst = {first_slot_ + static_cast<std::uint32_t>(message_.x.size() + message_.y.size()), end_,
                written_strides(view.extents, spec(y_slot, i).field, bytes)};
    const auto count = product(view.extents.span());
    const auto length = count ? checked_mul(*count, bytes) : std::nullopt;
    const auto end = length ? checked_add(end_, *length) : std::nullopt;
    if (!end) throw Error(Status::inval, "a buffer is too large", "bounds");
    end_ = *end;
    if ((direction_ == Direction::unpack) != adjoint_) std::swap(copy.src, copy.dst);
    copy.op.add = adjoint_;
    copies.push_back(copy);
  }

  static std::int64_t round_up_to(std::int64_t offset) {
    return static_cast<std::int64_t>(
        round_up(static_cast<std::uint64_t>(offset), static_cast<std::uint64_t>(kNativeAlignment)));
  }

  // Of a dense block in the buffer; `own` ranks the axes.
  Dims written_strides(const Dims& extents, const Field& own, std::int64_t bytes) const {
    std::array<std::size_t, kMaxRank> order;
    for (std::size_t i = 0; i < extents.size(); ++i) order[i] = i;
    if (message_.wire == Wire::native)
      std::stable_sort(
          order.begin(), order.begin() + static_cast<std::ptrdiff_t>(extents.size()),
          [&](std::size_t a, std::size_t b) { return std::abs(own.strides[a]) > std::abs(own.strides[b]); });
    Dims strides(extents.size(), 0);
    for (std::size_t i = extents.size(); i > 0; --i) {
      strides[order[i - 1]] = bytes;
      bytes *= std::max<std::int64_t>(extents[order[i - 1]], 1);
    }
    return strides;
  }

  const Message& message_;
  const Direction direction_;
  const bool adjoint_;
  const std::uint32_t first_slot_;
  std::int64_t end_ = 0;  // bytes written so far
};

}  // namespace

View turned(View view, int i_axis, int j_axis, int quarters) {
  quarters = modulo_4(quarters);
  if (quarters == 0) return view;
  if (i_axis < 0 || j_axis < 0) {
    if (i_axis >= 0 && quarters != 3) flip(view, i_axis);
    if (j_axis >= 0 && quarters != 1) flip(view, j_axis);
    return view;
  }
  const auto i = static_cast<std::size_t>(i_axis), j = static_cast<std::size_t>(j_axis);
  // The I axis is read backwards by 1 and 2, the J axis by 2 and 3; odd turns then exchange them.
  if (quarters != 3) flip(view, i_axis);
  if (quarters != 1) flip(view, j_axis);
  if (quarters % 2 == 1) {
    std::swap(view.extents[i], view.extents[j]);
    std::swap(view.strides[i], view.strides[j]);
  }
  return view;
}

Compiled compile(std::span<const Message> messages, Direction direction, bool adjoint) {
  Compiled out;
  std::vector<copy::Slot> slots;
  std::vector<copy::Copy> copies;
  for (const Message& message : messages) {
    if (message.is_vector ? message.x.size() != message.y.size() : !message.y.empty())
      throw Error(Status::inval, text(message.x.size(), " x specs and ", message.y.size(), " y specs"), "arguments");
    Writer writer(message, direction, adjoint, static_cast<std::uint32_t>(slots.size()));
    out.buffer_elements.push_back(writer.write(slots, copies));
  }
  out.plan = copy::compile(std::move(slots), std::move(copies));
  return out;
}

}  // namespace damacy::halo
