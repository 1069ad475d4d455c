// Layouts of batches of one array without a name.
#pragma once

#include <memory>
#include <span>

#include "damacy/batch/batch_layout.h"

namespace damacy::testing {

inline std::shared_ptr<const BatchLayout> layout_of(const Dims& extents, Dtype dtype, std::int64_t batch_size = 1) {
  Config config;
  config.batch_size = batch_size;
  config.dtype = dtype;
  const BatchLayout::First first{"", extents, 1, false};
  return std::make_shared<const BatchLayout>(config, std::span(&first, 1));
}

}  // namespace damacy::testing
