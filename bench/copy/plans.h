// Copy plans of halos from C++: GPU time, and host time of a run on a stream, each compared with a copy of the same
// bytes.
#pragma once

#include "runner.h"

namespace damacy::bench {

// Prints a JSON object per row. Returns whether all bytes equal the host's.
bool time_plans(Runner& runner);

}  // namespace damacy::bench
