// Rotations are strides, and exchanged components are a choice of field. Nothing here accesses elements.
#include "damacy/halo/wire.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "damacy/core/checked.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/halo/spec.h"

namespace damacy::halo {
namespace {

constexpr std::int64_t kNativeAlignment = 16;  // bytes

View view_of(const Field& field, const Box& box) {
  View view;
  if (box.rank() != field.shape.size() || box.stop.size() != field.shape.size() ||
      field.strides.size() != field.shape.size())
    throw Error(Status::inval, formatted("a box of rank {} in a field of rank {}", box.rank(), field.shape.size()),
                "bounds");
  view.extents = box.extents();
  view.strides = field.strides;
  for (std::size_t axis = 0; axis < view.extents.size(); ++axis) {
    if (box.start[axis] < 0 || box.stop[axis] < box.start[axis] || box.stop[axis] > field.shape[axis])
      throw Error(Status::inval,
                  formatted("axis {}: cells {} to {} are outside of the {} cells of the field", axis, box.start[axis],
                            box.stop[axis], field.shape[axis]),
                  "bounds");
    const auto step = checked_mul(box.start[axis], field.strides[axis]);
    const auto offset = step ? checked_add(view.offset, *step) : std::nullopt;
    if (!offset) throw Error(Status::inval, "an offset is out of range", "bounds");
    view.offset = *offset;
  }
  return view;
}

class Compiler {
 public:
  Compiler(std::span<const Field> fields, Direction direction, bool adjoint)
      : fields_(fields),
        turns_(direction == Direction::pack),
        to_fields_((direction == Direction::unpack) != adjoint),
        adjoint_(adjoint) {}

  Compiled operator()(std::span<const Message> messages, std::span<const Direct> directs) {
    for (const Field& field : fields_)
      slots_.push_back({field.dtype, field.shape, field.strides, to_fields_ || !directs.empty()});
    Compiled out;
    for (const Message& message : messages) {
      out.buffer_bytes.push_back(add_message(message));
      ++message_;
    }
    for (const Direct& direct : directs) add_direct(direct);
    out.message_of_slot = std::move(message_of_slot_);
    out.plan = copy::compile(std::move(slots_), std::move(copies_));
    return out;
  }

 private:
  // One slot of an entry: the rotated view that is read, and the field (`own`) whose slot it fills.
  struct Block {
    std::uint32_t field;
    View view;
    bool negate;
    std::uint32_t own;
  };

  const Field& field(std::uint32_t index) const {
    if (index >= fields_.size())
      throw Error(Status::inval, formatted("field {} does not exist: there are {}", index, fields_.size()),
                  "arguments");
    return fields_[index];
  }

  Block block(const Entry& entry, bool y_slot, Component component, int quarters) const {
    const FieldBox& read = component.from_y ? *entry.y : entry.x;
    const Field& from = field(read.field);
    return {read.field, turned(view_of(from, read.box), {from.i_axis, from.j_axis}, quarters), component.negate,
            y_slot ? entry.y->field : entry.x.field};
  }

  // Calls body(block, is_y_slot) for each slot.
  template <class Body>
  void for_each_block(const Entry& entry, Body body) const {
    const int quarters = turns_ ? modulo_4(-modulo_4(entry.rotation)) : 0;
    if (!entry.y) return body(block(entry, false, {false, entry.negate}, quarters), false);
    const auto [x, y] = rotated_components(quarters);
    body(block(entry, false, x, quarters), false);
    body(block(entry, true, y, quarters), true);
  }

  // Returns the size of the message's buffer in bytes.
  std::int64_t add_message(const Message& message) {
    const std::size_t first_slot = slots_.size();
    std::int64_t end = 0;
    for (const Entry& entry : message.entries)
      for_each_block(entry, [&](const Block& block, bool) { end = add_block(message, block, first_slot, end); });
    for (std::size_t i = first_slot; i < slots_.size(); ++i) {  // elements may begin at any byte
      const auto bytes = static_cast<std::int64_t>(size_of(slots_[i].dtype));
      slots_[i].shape = {end < bytes ? 0 : end - bytes + 1};
      slots_[i].strides = {1};
    }
    return end;
  }

  std::int64_t add_block(const Message& message, const Block& block, std::size_t first_slot, std::int64_t start) {
    const Dtype dtype = field(block.field).dtype;
    const auto bytes = static_cast<std::int64_t>(size_of(dtype));
    if (message.wire == Wire::native) start = aligned(start);
    const copy::SlotBox buffer{buffer_slot(dtype, first_slot), start,
                               written_strides(block.view.extents, field(block.own), message.wire, bytes)};
    const auto count = product(block.view.extents.span());
    const auto length = count ? checked_mul(*count, bytes) : std::nullopt;
    const auto end = length ? checked_add(start, *length) : std::nullopt;
    if (!end) throw Error(Status::inval, "a buffer is too large", "bounds");
    add_copy(block, buffer);
    return *end;
  }

  std::uint32_t buffer_slot(Dtype dtype, std::size_t first_slot) {
    for (std::size_t i = first_slot; i < slots_.size(); ++i)
      if (slots_[i].dtype == dtype) return static_cast<std::uint32_t>(i);
    message_of_slot_.push_back(message_);
    slots_.push_back({dtype, {}, {}, !to_fields_});
    return static_cast<std::uint32_t>(slots_.size() - 1);
  }

  void add_direct(const Direct& direct) {
    for_each_block(direct.from, [&](const Block& block, bool y_slot) {
      const FieldBox& to = y_slot ? *direct.to_y : direct.to_x;
      const View view = view_of(field(to.field), to.box);
      if (!(view.extents == block.view.extents))
        throw Error(Status::inval,
                    formatted("a box of {} goes to one of {}", tuple_text(block.view.extents.span()),
                              tuple_text(view.extents.span())),
                    "arguments");
      add_copy(block, {to.field, view.offset, view.strides});
    });
  }

  // `other`: the buffer or a field. In plans that unpack, the copy goes from `other` to the field of `block`.
  void add_copy(const Block& block, const copy::SlotBox& other) {
    copy::Copy copy;
    copy.extents = block.view.extents;
    copy.op = {block.negate, adjoint_};
    copy.src = {block.field, block.view.offset, block.view.strides};
    copy.dst = other;
    if (to_fields_) std::swap(copy.src, copy.dst);
    copies_.push_back(copy);
  }

  static std::int64_t aligned(std::int64_t offset) {
    return static_cast<std::int64_t>(
        round_up(static_cast<std::uint64_t>(offset), static_cast<std::uint64_t>(kNativeAlignment)));
  }

  // Strides of a dense block in the buffer; `own` gives the order of the axes.
  static Dims written_strides(const Dims& extents, const Field& own, Wire wire, std::int64_t bytes) {
    const Dims& ranking = own.ranking.size() == extents.size() ? own.ranking : own.strides;
    std::array<std::size_t, kMaxRank> order;
    for (std::size_t i = 0; i < extents.size(); ++i) order[i] = i;
    if (wire == Wire::native)
      std::stable_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(extents.size()),
                       [&](std::size_t a, std::size_t b) { return std::abs(ranking[a]) > std::abs(ranking[b]); });
    Dims strides(extents.size(), 0);
    for (std::size_t i = extents.size(); i > 0; --i) {
      strides[order[i - 1]] = bytes;
      bytes *= std::max<std::int64_t>(extents[order[i - 1]], 1);
    }
    return strides;
  }

  std::span<const Field> fields_;
  const bool turns_;
  const bool to_fields_;
  const bool adjoint_;
  std::vector<copy::Slot> slots_;
  std::vector<copy::Copy> copies_;
  std::vector<std::uint32_t> message_of_slot_;
  std::uint32_t message_ = 0;
};

}  // namespace

Compiled compile(std::span<const Field> fields, std::span<const Message> messages, std::span<const Direct> directs,
                 Direction direction, bool adjoint) {
  return Compiler(fields, direction, adjoint)(messages, directs);
}

}  // namespace damacy::halo
