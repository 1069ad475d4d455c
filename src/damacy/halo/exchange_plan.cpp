// Messages are in ascending order of their peers.
#include "damacy/halo/exchange_plan.h"

#include <algorithm>
#include <set>
#include <utility>

#include "damacy/core/formatted.h"
#include "damacy/halo/exchange_digest.h"
#include "damacy/halo/plan_cache.h"

namespace damacy::halo {
namespace {

constexpr Digest kAdjoint{0x61646a6f696e74, 0, 0, 0};

std::vector<Message> messages_of(const std::map<std::int64_t, std::vector<Entry>>& entries, Wire wire) {
  std::vector<Message> messages;
  for (const auto& [peer, own] : entries) messages.push_back({own, wire});
  return messages;
}

}  // namespace

ExchangePlan::ExchangePlan(std::vector<QuantityHaloSpec> specs, std::int64_t rank, Wire wire,
                           std::vector<ExchangePhase> phases, bool lines)
    : specs_(std::move(specs)), phases_(std::move(phases)), rank_(rank), wire_(wire), lines_(lines) {
  for (const auto& spec : specs_) {
    const auto [i, j] = horizontal_axes(spec.dims);
    fields_.push_back({spec.dtype, spec.shape, spec.strides, i, j, {}});
  }
  if (lines_) {
    fields_.at(0).j_axis = -1;
    fields_.at(1).i_axis = -1;
  }
  std::set<std::int64_t> peers;
  for (const auto& phase : phases_)
    for (const auto* messages : {&phase.sends, &phase.receives})
      for (const auto& [peer, entries] : *messages) peers.insert(peer);
  peers_.assign(peers.begin(), peers.end());
}

void ExchangePlan::check_count(std::size_t arrays) const {
  if (arrays != specs_.size())
    throw Error(Status::inval, formatted("Quantities count: {} for {} fields", arrays, specs_.size()), kMisuse);
}

void ExchangePlan::check_array(std::size_t index, Dtype dtype, const Dims& shape, const Dims& strides) const {
  const QuantityHaloSpec& field = specs_.at(index);
  if (dtype != field.dtype)
    throw Error(Status::dtype,
                formatted("array {} has dtype {}, expected {}", index, name_of(dtype), name_of(field.dtype)));
  if (!(shape == field.shape) || !(strides == field.strides))
    throw Error(Status::inval, formatted("array {} has shape {}, strides {}, expected {}, {}", index,
                                         tuple_text(shape.span()), tuple_text(strides.span()),
                                         tuple_text(field.shape.span()), tuple_text(field.strides.span())));
}

ExchangePlan ExchangePlan::adjoint() const {
  ExchangePlan out = *this;
  out.adjoint_ = true;
  std::reverse(out.phases_.begin(), out.phases_.end());
  for (ExchangePhase& phase : out.phases_) std::swap(phase.sends, phase.receives);
  return out;
}

// The adjoint reads halo cells as packing reads cells to send, and adds where packing reads.
std::shared_ptr<const Compiled> ExchangePlan::pack(const ExchangePhase& phase) const {
  return cached_plan(fields_, messages_of(phase.sends, wire_), Direction::pack,
                     adjoint_ ? std::vector<Direct>() : phase.directs);
}

std::shared_ptr<const Compiled> ExchangePlan::unpack(const ExchangePhase& phase) const {
  const auto messages = messages_of(phase.receives, wire_);
  if (adjoint_) return cached_plan(fields_, messages, Direction::pack, phase.directs, /*adjoint=*/true);
  return cached_plan(fields_, messages, Direction::unpack);
}

Digests ExchangePlan::digests(std::int64_t peer) const {
  if (adjoint_) return {kAdjoint, kAdjoint};
  return {digest_of(specs_, phases_, peer, true, wire_, lines_),
          digest_of(specs_, phases_, peer, false, wire_, lines_)};
}

}  // namespace damacy::halo
