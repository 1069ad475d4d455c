// Digests of the messages of an exchange, by which two ranks find out that they mean the same. Knows entries and
// fields; not how digests travel.
#pragma once

#include <cstdint>
#include <span>

#include "damacy/halo/exchange_phases.h"
#include "damacy/halo/spec.h"
#include "damacy/halo/transport.h"
#include "damacy/halo/wire.h"

namespace damacy::halo {

// The digest of the messages to the peer, or with `sends` false of those from it. `lines`: of interface_phase(), where
// ranks may call the axis of a line differently.
[[nodiscard]] Digest digest_of(std::span<const QuantityHaloSpec> fields, std::span<const ExchangePhase> phases,
                               std::int64_t peer, bool sends, Wire wire, bool lines = false);

}  // namespace damacy::halo
