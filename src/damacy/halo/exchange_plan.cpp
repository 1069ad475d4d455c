// Messages are in ascending order of their peers.
#include "damacy/halo/exchange_plan.h"

#include <set>

namespace damacy::halo {
namespace {

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

Compiled ExchangePlan::pack(const ExchangePhase& phase) const {
  return compile(fields_, messages_of(phase.sends, wire_), phase.directs, Direction::pack);
}

Compiled ExchangePlan::unpack(const ExchangePhase& phase) const {
  return compile(fields_, messages_of(phase.receives, wire_), {}, Direction::unpack);
}

Digests ExchangePlan::digests(std::int64_t peer) const {
  return {digest_of(specs_, phases_, peer, true, wire_, lines_),
          digest_of(specs_, phases_, peer, false, wire_, lines_)};
}

}  // namespace damacy::halo
