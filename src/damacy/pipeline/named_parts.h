// The parts of a sample, by the names of their arrays. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "damacy/batch/sample.h"

namespace damacy {

struct NamedParts {
  std::string name;
  std::vector<const Sample::Part*> parts;  // in order

  bool is_stacked() const noexcept { return parts.front()->stacked; }
};

// In the order of `names`; if there are none, in the order in which they occur first. Throws Error(inval, "limit") and
// Error(inval, "names").
[[nodiscard]] std::vector<NamedParts> parts_by_name(const Sample& sample, std::span<const std::string> names);

// A sample has other arrays than the pipeline.
[[noreturn]] void refuse_names(std::span<const std::string> of_sample, std::span<const std::string> of_pipeline);

}  // namespace damacy
