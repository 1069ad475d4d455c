// Compares random placements on the device with the host copier, byte by byte, guards included.
#pragma once

#include <cstdint>

#include "runner.h"

namespace damacy::bench {

struct CheckOptions {
  double seconds = 12;
  std::uint64_t seed = 1;
  std::uint64_t most = ~std::uint64_t{0};  // placements
  bool exact = false;                      // each chunk in an allocation of its exact size, for compute-sanitizer
};

// Each prints a line and returns whether all results equal the host's.
bool check_random(Runner& runner, const CheckOptions& options);
bool check_every_pair(Runner& runner);   // all pairs of types, plain and shuffled, either byte order
bool check_every_value(Runner& runner);  // all 65,536 values of types of two bytes, to all types

}  // namespace damacy::bench
