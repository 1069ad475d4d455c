// Crops as training asks for them, timed together with a copy on the device, and some rows of each compared with the
// host's.
#pragma once

#include <string>
#include <vector>

#include "runner.h"

namespace damacy::bench {

// All cases, or those of these names.
bool time_all(Runner& runner, const std::vector<std::string>& wanted);

}  // namespace damacy::bench
