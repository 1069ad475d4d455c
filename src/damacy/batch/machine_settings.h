// Settings of a pipeline that follow from a machine, for fields of Config that the caller did not set. Pure. What the
// numbers reach is in docs/how-to/memory.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "damacy/core/machine.h"

namespace damacy {

// A value for a field of Config, and the reason in words.
struct Choice {
  std::string_view field;
  std::int64_t value = 0;
  std::string why;
};

// What the caller did set. 0: not set.
struct SettingsAsked {
  std::int64_t chunk_bytes = 0;           // decoded chunks that the buffers shall hold
  std::int64_t max_gpu_memory_bytes = 0;  // the buffer of a GPU takes at most half of it
};

[[nodiscard]] std::vector<Choice> choose_settings(const Machine& machine, const SettingsAsked& asked = {});

}  // namespace damacy
