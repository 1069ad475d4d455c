// Copy plans of halos from C++: GPU time, and host time of a run in the order of a stream, each beside a copy of the
// same bytes.
#pragma once

#include "runner.h"

namespace damacy::bench {

// Whether all bytes were as on the host. Prints a line a row; some of section "halo" of the benchmark's table.
bool time_plans(Runner& runner);

}  // namespace damacy::bench
