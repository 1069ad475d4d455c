// Checks whether a sample may enter the stream. Pure, except that it opens the array and may log a warning.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "damacy/batch/batch_job.h"
#include "damacy/batch/batch_layout.h"
#include "damacy/batch/config.h"
#include "damacy/batch/sample.h"
#include "damacy/core/error.h"
#include "damacy/pipeline/part_geometry.h"
#include "damacy/plan/batch_plan.h"

namespace damacy {

struct Admitted {
  PlannedSample sample;
  std::shared_ptr<const BatchLayout> layout;  // the given one; of the first sample a new one
};
using OpenArray = std::function<OpenedArray(const std::string& uri)>;  // throws where it cannot be opened

// `layout`: of the first sample accepted, null before. Throws Error with the array's name, uri and reason; the caller
// adds stage and position.
Admitted admit(const Sample& sample, const Config& config, const std::shared_ptr<const BatchLayout>& layout,
               const OpenArray& open);
// The same sample as a row that fails, because one of its arrays could not be opened. Its extents are those of
// `layout`, else of its boxes; empty if these do not tell the extents of rows. Throws as admit().
std::optional<Admitted> admit_lost(const Sample& sample, const Config& config,
                                   const std::shared_ptr<const BatchLayout>& layout, const Error& failure);
// The only part of a sample of one box.
PlannedPart admit_box(const Sample& sample, const Config& config, const OpenArray& open);

// Whether arrays are to be opened with their attributes.
[[nodiscard]] bool needs_attributes(const Config& config) noexcept;
[[nodiscard]] bool needs_attributes(const Sample& sample) noexcept;

}  // namespace damacy
