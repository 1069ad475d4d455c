// Times crops as in training, and a copy on the device, and compares some rows of each crop with the host's.
#pragma once

#include <string>
#include <vector>

#include "runner.h"

namespace damacy::bench {

// Runs all cases, or those with these names.
bool time_all(Runner& runner, const std::vector<std::string>& wanted);

}  // namespace damacy::bench
