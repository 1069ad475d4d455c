// Times of each kernel of a wave when it runs alone, and waves in launch shapes other than those that their counts
// select.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "batch.h"

namespace damacy::bench {

using StageTimes = std::vector<std::pair<std::string, double>>;  // name, ms; in launch order

[[nodiscard]] StageTimes stage_times(const Batch& batch);
[[nodiscard]] std::string launch_shapes(const WaveShape& shape);

// All combinations of launch shapes are numbered.
inline constexpr unsigned kShapeChoices = 36;
[[nodiscard]] std::string shape_choice(unsigned choice);
void decode_in_shape(const Batch& batch, unsigned choice);  // one kernel after the other; returns when done

}  // namespace damacy::bench
