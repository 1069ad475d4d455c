// How long each kernel of a wave takes when it runs alone.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "batch.h"

namespace damacy::bench {

using StageTimes = std::vector<std::pair<std::string, double>>;  // name, ms; in launch order

[[nodiscard]] StageTimes stage_times(const Batch& batch);
[[nodiscard]] std::string launch_shapes(const WaveShape& shape);

}  // namespace damacy::bench
