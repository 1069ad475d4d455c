// What a transformer packs and unpacks: checks its specs together and makes the message and the fields of its plans.
// Knows specs; not arrays, buffers or the order of work.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "damacy/halo/spec.h"
#include "damacy/halo/wire.h"

namespace damacy::halo {

// The specs of x, and of y if it is a vector: then as many as of x.
struct TransformerSpecs {
  std::vector<HaloExchangeSpec> x;
  std::optional<std::vector<HaloExchangeSpec>> y;

  std::size_t count() const noexcept { return x.size() + (y ? y->size() : 0); }
  const HaloExchangeSpec& operator[](std::size_t i) const { return i < x.size() ? x[i] : (*y)[i - x.size()]; }
};

// Throws Error(inval): kMisuse for no specs, or for x and y that differ in number, rotation or kinds of dimensions;
// kUnsupported for several element types; Error(dtype) for vectors that need a negation their type does not have.
void check(const TransformerSpecs& specs);

// One entry for each spec, or pair of specs. `first`: the number of the first field.
[[nodiscard]] Message message_of(const TransformerSpecs& specs, Direction direction, Wire wire,
                                 std::uint32_t first = 0);

// The field of a spec, in an array with these strides. The spec's own strides order the axes on a native wire.
[[nodiscard]] Field field_of(const QuantityHaloSpec& spec, const Dims& strides);

}  // namespace damacy::halo
