// What a rank sends to and receives from each peer: one message per peer and phase, its segments in the order of the
// sender's sides, then of the fields. Knows links, boxes and fields; not buffers, and not how messages travel.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "damacy/halo/spec.h"
#include "damacy/halo/topology.h"
#include "damacy/halo/wire.h"

namespace damacy::halo {

// One round of messages, by peer. Cells that stay on this rank are copied directly.
struct ExchangePhase {
  std::map<std::int64_t, std::vector<Entry>> sends;
  std::map<std::int64_t, std::vector<Entry>> receives;
  std::vector<Direct> directs;
};

// Indices of the fields that are the x and the y component of a vector.
using VectorPairs = std::vector<std::pair<std::int64_t, std::int64_t>>;

// Throws Error(inval), with kMisuse and kOutsideAllocation as in spec.h; Error(dtype) for a negation that a type lacks.
[[nodiscard]] std::vector<ExchangePhase> phases_of(std::span<const QuantityHaloSpec> fields, const RankLinks& links,
                                                   std::int64_t rank, const Width& width, const VectorPairs& vectors);

// For shared edges of C-grid vectors, which two ranks hold: the first row of x goes south, the first column of y goes
// west. What comes from north and east replaces the last row of x and the last column of y.
[[nodiscard]] ExchangePhase interface_phase(const QuantityHaloSpec& x, const QuantityHaloSpec& y,
                                            std::span<const Link> links, std::int64_t rank);

// Cells of a field along the decomposed dimensions; the shared row of a staggered dimension is not counted.
[[nodiscard]] Integers cells_of(const QuantityHaloSpec& field, std::span<const std::string> dims);
// Throws Error(inval) unless every field has the cells of this block.
void check_block(std::span<const QuantityHaloSpec> fields, std::span<const std::string> dims, const Integers& block,
                 std::int64_t rank);

}  // namespace damacy::halo
