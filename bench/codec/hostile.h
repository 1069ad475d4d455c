// Correctness and safety: generated frames of all kinds, and mutated ones under guard zones, with the reference decoder
// and the libraries as oracles.
#pragma once

#include <cstdint>

#include "crew.h"

namespace damacy::bench {

struct HostileOptions {
  double seconds = 10;          // keeps starting batches until then; 0: one batch
  std::size_t frames = 100000;  // a batch
  std::size_t largest = 4096;   // bytes a frame
  bool mutate = true;
  std::uint64_t seed = 1;
  double checked_share = 0.02;  // of mutated frames, by the reference decoder
  bool all_shapes = false;      // every batch in every launch shape, one kernel after the other
};

// Prints totals as JSON. False when a byte was wrong or escaped, or a verdict differs.
bool run_hostile(const HostileOptions& options, Crew& crew);

}  // namespace damacy::bench
