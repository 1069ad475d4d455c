// The plan of one rank's exchange: its messages by phase and peer, the copy plans that pack and unpack them, and the
// digests that both ends compare. Allocates no buffers; any number of exchangers may use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "damacy/halo/exchange_phases.h"
#include "damacy/halo/spec.h"
#include "damacy/halo/transport.h"
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

  // Throws Error(inval, kMisuse) for another number of arrays than of fields.
  void check_count(std::size_t arrays) const;
  // Throws Error(inval), or Error(dtype), unless an array has the type and the layout of its field.
  void check_array(std::size_t index, Dtype dtype, const Dims& shape, const Dims& strides) const;

  // The exchange that sends the receivers' cells back to their owners, which add them.
  ExchangePlan adjoint() const;

  // For all peers at once, messages in ascending order of peers. Direct copies are part of packing, in the adjoint of
  // unpacking. Plans are cached by content.
  std::shared_ptr<const Compiled> pack(const ExchangePhase& phase) const;
  std::shared_ptr<const Compiled> unpack(const ExchangePhase& phase) const;

  // Of the message to the peer, and of the one from it. The peer must have the same two, exchanged. The adjoint has one
  // digest for all messages, because the exchange itself has compared them.
  Digests digests(std::int64_t peer) const;

 private:
  std::vector<QuantityHaloSpec> specs_;
  std::vector<Field> fields_;
  std::vector<ExchangePhase> phases_;
  std::vector<std::int64_t> peers_;
  std::int64_t rank_;
  Wire wire_;
  bool lines_;
  bool adjoint_ = false;
};

}  // namespace damacy::halo
