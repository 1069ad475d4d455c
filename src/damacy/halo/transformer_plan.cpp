// Fields are numbered in the order of the specs, those of x first.
#include "damacy/halo/transformer_plan.h"

#include <algorithm>

#include "damacy/core/formatted.h"
#include "damacy/halo/plan_cache.h"
#include "damacy/halo/spec.h"

namespace damacy::halo {
namespace {

bool same_kinds(const QuantityHaloSpec& a, const QuantityHaloSpec& b) {
  return std::equal(a.dims.begin(), a.dims.end(), b.dims.begin(), b.dims.end(),
                    [](const auto& x, const auto& y) { return kind_of(x) == kind_of(y); });
}

constexpr std::size_t kCheckedLayouts = 8;  // sets of addresses that were checked for overlap

void check_count(std::size_t given, std::size_t expected, const char* component) {
  if (given != expected)
    throw Error(Status::inval, formatted("Quantities count: {} for {} specs in {}", given, expected, component),
                kMisuse);
}

// A launch, and the bytes at the rate of a core or of a GPU's memory, in microseconds.
std::string predicted_us(std::int64_t bytes, bool on_device) {
  const std::int64_t tenths = 50 + bytes / (on_device ? 150'000 : 800);
  return formatted("{}.{}", tenths / 10, tenths % 10);
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

void check_counts(const TransformerSpecs& specs, std::size_t x, std::optional<std::size_t> y) {
  check_count(x, specs.x.size(), "x");
  if (!specs.y && y) throw Error(Status::inval, "Quantities count: y given for no specs in y", kMisuse);
  if (specs.y && !y)
    throw Error(Status::inval, formatted("Quantities count: y missing for {} specs in y", specs.y->size()), kMisuse);
  if (specs.y) check_count(*y, specs.y->size(), "y");
}

std::string name_of_array(const TransformerSpecs& specs, std::size_t index) {
  return index < specs.x.size() ? formatted("quantity {}", index)
                                : formatted("quantity {} of y", index - specs.x.size());
}

void check_array(const TransformerSpecs& specs, std::size_t index, const ArrayFacts& facts) {
  const QuantityHaloSpec& spec = specs[index].quantity;
  if (facts.dims && *facts.dims != spec.dims)
    throw Error(Status::inval, formatted("{} has dims {}, expected {}", name_of_array(specs, index),
                                         names_text(*facts.dims), names_text(spec.dims)));
  if (!(facts.shape == spec.shape))
    throw Error(Status::inval, formatted("{} has shape {}, expected {}", name_of_array(specs, index),
                                         tuple_text(facts.shape.span()), tuple_text(spec.shape.span())));
  if (facts.dtype != spec.dtype)
    throw Error(Status::dtype, formatted("{} is of {}, expected {}", name_of_array(specs, index), name_of(facts.dtype),
                                         name_of(spec.dtype)));
}

void add_array(GatheredArrays& arrays, const TransformerSpecs& specs, std::uint64_t address, const Dims& strides,
               bool is_writable) {
  const std::size_t index = arrays.addresses.size();
  if (arrays.strides.empty() && !(strides == specs[index].quantity.strides))
    for (std::size_t i = 0; i < index; ++i) arrays.strides.push_back(specs[i].quantity.strides);
  const bool is_own = arrays.strides.empty() && strides == specs[index].quantity.strides;
  if (!is_own) arrays.strides.push_back(strides);
  arrays.addresses.push_back(address);
  if (!is_writable && arrays.read_only.empty()) arrays.read_only = name_of_array(specs, index);
}

void check_writable(const GatheredArrays& arrays) {
  if (!arrays.read_only.empty())
    throw Error(Status::inval, formatted("{} is read-only, but unpacking writes to it", arrays.read_only));
}

TransformerPlans::TransformerPlans(TransformerSpecs specs, Wire wire) : specs_(std::move(specs)), wire_(wire) {
  check(specs_);
  std::vector<Field> fields;
  add_fields(fields, {});
  for (const Direction direction : {Direction::pack, Direction::unpack})
    own_[at(direction)] = cached_plan(fields, {message_of(specs_, direction, wire_)}, direction);
}

std::size_t TransformerPlans::buffer_bytes(Direction direction) const {
  return static_cast<std::size_t>(own(direction)->buffer_bytes.at(0));
}

std::int64_t TransformerPlans::buffer_elements(Direction direction) const {
  return own(direction)->buffer_bytes.at(0) / static_cast<std::int64_t>(size_of(specs_.x[0].quantity.dtype));
}

void TransformerPlans::add_fields(std::vector<Field>& fields, const GatheredArrays& arrays) const {
  for (std::size_t i = 0; i < specs_.count(); ++i) {
    const QuantityHaloSpec& spec = specs_[i].quantity;
    fields.push_back(field_of(spec, arrays.strides.empty() ? spec.strides : arrays.strides[i]));
  }
}

void TransformerPlans::check_overlaps(const PlanAndBases& copies) {
  for (const auto& [known, addresses] : checked_)
    if (known == copies.plan && addresses == copies.bases) return;
  copy::check_overlaps(*copies.plan->plan, copies.bases);
  checked_.emplace_back(copies.plan, copies.bases);
  if (checked_.size() > kCheckedLayouts) checked_.pop_front();
}

PlanAndBases TransformerPlans::prepared(Direction direction, const GatheredArrays& arrays, std::uint64_t message) {
  PlanAndBases out{own(direction), arrays.addresses};
  if (!arrays.strides.empty()) {
    std::vector<Field> fields;
    add_fields(fields, arrays);
    out.plan = cached_plan(fields, {message_of(specs_, direction, wire_)}, direction);
  }
  out.bases.push_back(message);
  if (direction == Direction::unpack) {
    check_writable(arrays);
    check_overlaps(out);
  }
  return out;
}

PlanAndBases TransformerPlans::prepared(Direction direction, std::span<const Item> items) {
  std::vector<Field> fields;
  std::vector<Message> messages;
  PlanAndBases out;
  for (const Item& item : items) {
    const auto same = [&](const Item& other) { return other.plans == item.plans; };
    if (direction == Direction::pack && std::count_if(items.begin(), items.end(), same) > 1)
      throw Error(Status::inval, "pack_many: each transformer may be listed once, because it has one pack buffer");
    if (direction == Direction::unpack) check_writable(*item.arrays);
    messages.push_back(
        message_of(item.plans->specs_, direction, item.plans->wire_, static_cast<std::uint32_t>(fields.size())));
    item.plans->add_fields(fields, *item.arrays);
    out.bases.insert(out.bases.end(), item.arrays->addresses.begin(), item.arrays->addresses.end());
  }
  for (const Item& item : items) out.bases.push_back(item.message);
  out.plan = cached_plan(fields, messages, direction);
  if (direction == Direction::unpack && !items.empty()) items[0].plans->check_overlaps(out);
  return out;
}

std::string TransformerPlans::describe(bool on_device) const {
  std::string out;
  for (const Direction direction : {Direction::pack, Direction::unpack}) {
    const copy::Plan& plan = *own(direction)->plan;
    const char* const name = direction == Direction::pack ? "pack" : "unpack";
    out += formatted("{}:\n{}{}: {} bytes, {} launches, predicted {} us\n", name, plan.describe(), name, plan.bytes(),
                     plan.phases().size(), predicted_us(static_cast<std::int64_t>(plan.bytes()), on_device));
  }
  return out;
}

}  // namespace damacy::halo
