// Checks whether a sample may enter the stream. Pure, except that it opens the array and may log a warning.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "damacy/batch/batch_job.h"
#include "damacy/batch/batch_layout.h"
#include "damacy/batch/config.h"
#include "damacy/batch/sample.h"
#include "damacy/plan/batch_plan.h"

namespace damacy {

struct Admitted {
  PlannedSample sample;
  std::shared_ptr<const BatchLayout> layout;  // the given one; of the first sample a new one
};
// `layout`: of the first sample accepted, null before. `open` returns an opened array or throws.
// Throws Error with the array's name, uri and reason; the caller adds stage and position.
Admitted admit(const Sample& sample, const Config& config, const std::shared_ptr<const BatchLayout>& layout,
               const std::function<std::shared_ptr<const Array>(const std::string& uri)>& open);
// The same of a box of one array. `extents`: of the first sample accepted, null before.
PlannedPart admit_part(const std::string& uri, const Sample::Ranges& aabb, const Config& config, Dtype to,
                       const Dims* extents,
                       const std::function<std::shared_ptr<const Array>(const std::string& uri)>& open);

}  // namespace damacy
