// Checks whether a sample may enter the stream. Pure, except that it opens the array and may log a warning.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "damacy/batch/config.h"
#include "damacy/batch/sample.h"
#include "damacy/plan/batch_plan.h"

namespace damacy {

// Gives an opened array or throws. `extents`: of the first sample accepted, empty before.
// Throws Error with uri and reason; the caller adds stage and position.
PlannedSample admit(const Sample& sample, const Config& config, const std::optional<Dims>& extents,
                    const std::function<std::shared_ptr<const Array>()>& open);

}  // namespace damacy
