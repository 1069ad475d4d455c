// Crops as training asks for them, timed beside a copy on the device, and some rows of each compared with the host's.
#pragma once

#include <string>

#include "runner.h"

namespace damacy::bench {

// All cases whose names begin so.
bool time_all(Runner& runner, const std::string& wanted);

}  // namespace damacy::bench
