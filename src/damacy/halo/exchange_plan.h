// The plan of one rank's exchange: its messages by phase and peer, the copy plans that pack and unpack them, and the
// digests that both ends compare. Allocates no buffers; any number of exchangers may use it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "damacy/halo/exchange_phases.h"
#include "damacy/halo/spec.h"
#include "damacy/halo/wire.h"

namespace damacy::halo {

class ExchangePlan {
 public:
  // `lines`: the phases are of interface_phase(). Then the row of x is rotated along i alone, the column of y along j.
  ExchangePlan(std::vector<QuantityHaloSpec> specs, std::int64_t rank, Wire wire, std::vector<ExchangePhase> phases,
               bool lines = false);

  std::span<const QuantityHaloSpec> specs() const noexcept { return specs_; }
  std::span<const Field> fields() const noexcept { return fields_; }
  std::span<const ExchangePhase> phases() const noexcept { return phases_; }
  std::int64_t rank() const noexcept { return rank_; }
  Wire wire() const noexcept { return wire_; }
  const std::vector<std::int64_t>& peers() const noexcept { return peers_; }  // ascending

  // For all peers at once, messages in ascending order of peers. Packing also makes the phase's direct copies.
  Compiled pack(const ExchangePhase& phase) const;
  Compiled unpack(const ExchangePhase& phase) const;

  // Of the message to the peer, and of the one from it. The peer must have the same two, exchanged.
  Digests digests(std::int64_t peer) const;

 private:
  std::vector<QuantityHaloSpec> specs_;
  std::vector<Field> fields_;
  std::vector<ExchangePhase> phases_;
  std::vector<std::int64_t> peers_;
  std::int64_t rank_;
  Wire wire_;
  bool lines_;
};

}  // namespace damacy::halo
