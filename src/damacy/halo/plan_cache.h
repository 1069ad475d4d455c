// Compiled plans of the process, by everything that they depend on. Knows keys; not arrays.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "damacy/halo/wire.h"

namespace damacy::halo {

inline constexpr std::size_t kMostCachedPlans = 1024;

// The plan of these messages and direct copies, as compile() makes it: a cached one, or a new one. The least recently
// used plan is dropped. Any thread may call. Throws as compile().
[[nodiscard]] std::shared_ptr<const Compiled> cached_plan(const std::vector<Field>& fields,
                                                          const std::vector<Message>& messages, Direction direction,
                                                          const std::vector<Direct>& directs = {},
                                                          bool adjoint = false);

// All of them by their keys, most recently used first. A key is a text of bytes.
using CachedPlans = std::vector<std::pair<std::string, std::shared_ptr<const Compiled>>>;
[[nodiscard]] CachedPlans cached_plans();
void clear_cached_plans();

}  // namespace damacy::halo
