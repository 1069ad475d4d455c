// Copy plans of halos from C++: GPU time, and host time of a run in the order of a stream, each compared with a copy of
// the same bytes.
#pragma once

#include "runner.h"

namespace damacy::bench {

// Prints a JSON object a row. Returns whether all bytes were as on the host.
bool time_plans(Runner& runner);

}  // namespace damacy::bench
