// Fields are numbered in the order of the specs, those of x first.
#include "damacy/halo/transformer_plan.h"

#include <algorithm>

#include "damacy/core/formatted.h"
#include "damacy/halo/rotate.h"

namespace damacy::halo {
namespace {

bool same_kinds(const QuantityHaloSpec& a, const QuantityHaloSpec& b) {
  return std::equal(a.dims.begin(), a.dims.end(), b.dims.begin(), b.dims.end(),
                    [](const auto& x, const auto& y) { return kind_of(x) == kind_of(y); });
}

}  // namespace

void check(const TransformerSpecs& specs) {
  if (specs.x.empty()) throw Error(Status::inval, "Attempting to init an empty halo exchange", kMisuse);
  for (std::size_t i = 0; i < specs.count(); ++i) {
    check(specs[i]);
    if (specs[i].quantity.dtype != specs.x[0].quantity.dtype)
      throw Error(Status::inval, "Halo exchange process mixed precision", kUnsupported);
  }
  if (!specs.y) return;
  const bool same = std::equal(specs.x.begin(), specs.x.end(), specs.y->begin(), specs.y->end(), [](auto& a, auto& b) {
    return modulo_4(a.rotation) == modulo_4(b.rotation) && same_kinds(a.quantity, b.quantity);
  });
  if (!same) throw Error(Status::inval, "Vector halo exchange must have same exchange data for X and Y", kMisuse);
  if (std::any_of(specs.x.begin(), specs.x.end(), [](const auto& spec) { return modulo_4(spec.rotation) != 0; }))
    check_negatable(specs.x[0].quantity.dtype);
}

Message message_of(const TransformerSpecs& specs, Direction direction, Wire wire, std::uint32_t first) {
  const auto box = [&](const HaloExchangeSpec& spec) {
    return direction == Direction::unpack ? spec.unpack : spec.pack;
  };
  Message message;
  message.wire = wire;
  for (std::size_t i = 0; i < specs.x.size(); ++i) {
    Entry entry;
    entry.x = {first + static_cast<std::uint32_t>(i), box(specs.x[i])};
    if (specs.y) entry.y = {first + static_cast<std::uint32_t>(specs.x.size() + i), box((*specs.y)[i])};
    if (direction == Direction::pack) entry.rotation = modulo_4(specs.x[i].rotation);
    message.entries.push_back(std::move(entry));
  }
  return message;
}

Field field_of(const QuantityHaloSpec& spec, const Dims& strides) {
  const auto [i, j] = horizontal_axes(spec.dims);
  return {spec.dtype, spec.shape, strides, i, j, spec.strides};
}

}  // namespace damacy::halo
