// Compiled plans of the process, by everything that they depend on. Knows keys; not arrays.
#pragma once

#include <memory>
#include <vector>

#include "damacy/halo/wire.h"

namespace damacy::halo {

inline constexpr std::size_t kMostCachedPlans = 1024;

// The plan of these messages: a cached one, or a new one. The least recently used plan is dropped. Any thread may call.
// Throws as compile().
[[nodiscard]] std::shared_ptr<const Compiled> cached_plan(const std::vector<Field>& fields,
                                                          const std::vector<Message>& messages, Direction direction);

}  // namespace damacy::halo
