// How long each kernel of a wave takes when it runs alone, and waves in launch shapes that their counts would not give.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "batch.h"

namespace damacy::bench {

using StageTimes = std::vector<std::pair<std::string, double>>;  // name, ms; in launch order

[[nodiscard]] StageTimes stage_times(const Batch& batch);
[[nodiscard]] std::string launch_shapes(const WaveShape& shape);

// Every combination of launch shapes once, by number.
inline constexpr unsigned kShapeChoices = 36;
[[nodiscard]] std::string shape_choice(unsigned choice);
void decode_in_shape(const Batch& batch, unsigned choice);  // one kernel after the other; returns when done

}  // namespace damacy::bench
