// What a transformer packs and unpacks: checks its specs together, and its arrays against them; makes the message, the
// fields and the plans, with the addresses that a plan copies from and to. Knows specs, addresses and strides; not
// memory, buffers or the order of work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
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

// The arrays of a call, in the order of the specs.
struct GatheredArrays {
  Addresses addresses;
  std::vector<Dims> strides;  // of all arrays; empty if they are those of the specs
  std::string read_only;      // the name of the first array that is read-only
};

// Throws Error(inval, kMisuse) for other numbers of arrays than of specs. `y`: empty if none are given.
void check_counts(const TransformerSpecs& specs, std::size_t x, std::optional<std::size_t> y);
// "quantity 3", "quantity 0 of y": as errors name the array of a spec.
[[nodiscard]] std::string name_of_array(const TransformerSpecs& specs, std::size_t index);
// What an array says of itself.
struct ArrayFacts {
  std::optional<std::vector<std::string>> dims;
  Dims shape;
  Dtype dtype = Dtype::f64;
};
// Throws Error(inval), or Error(dtype), if they are not those of the spec.
void check_array(const TransformerSpecs& specs, std::size_t index, const ArrayFacts& facts);
// The next array.
void add_array(GatheredArrays& arrays, const TransformerSpecs& specs, std::uint64_t address, const Dims& strides,
               bool is_writable);
// Throws Error(inval) if an array is read-only.
void check_writable(const GatheredArrays& arrays);

// A plan, and one address for each of its slots: those of the arrays, then those of the messages.
struct PlanAndBases {
  std::shared_ptr<const Compiled> plan;
  Addresses bases;
};

// The plans of one transformer. One thread at a time uses it.
class TransformerPlans {
 public:
  // Throws as check().
  TransformerPlans(TransformerSpecs specs, Wire wire);

  const TransformerSpecs& specs() const noexcept { return specs_; }
  Wire wire() const noexcept { return wire_; }
  const std::shared_ptr<const Compiled>& own(Direction direction) const noexcept { return own_[at(direction)]; }
  std::size_t buffer_bytes(Direction direction) const;
  std::int64_t buffer_elements(Direction direction) const;

  // Unpacking throws for arrays that are read-only, or that overlap: that is checked once for each set of addresses.
  PlanAndBases prepared(Direction direction, const GatheredArrays& arrays, std::uint64_t message);

  // One line for each copy: slots, bytes, path, tiles; then totals.
  std::string describe(bool on_device) const;

  struct Item {
    TransformerPlans* plans;
    const GatheredArrays* arrays;
    std::uint64_t message;  // its address
  };
  // All in one plan. For packing each transformer may be listed once, because it has one pack buffer.
  static PlanAndBases prepared(Direction direction, std::span<const Item> items);

 private:
  static std::size_t at(Direction direction) noexcept { return direction == Direction::pack ? 0 : 1; }
  void add_fields(std::vector<Field>& fields, const GatheredArrays& arrays) const;
  void check_overlaps(const PlanAndBases& copies);

  TransformerSpecs specs_;
  Wire wire_;
  std::shared_ptr<const Compiled> own_[2];  // of the specs' own layouts
  std::deque<std::pair<std::shared_ptr<const Compiled>, Addresses>> checked_;
};

}  // namespace damacy::halo
