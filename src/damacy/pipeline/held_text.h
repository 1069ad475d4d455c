// The error for a caller that holds all slots. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "damacy/batch/config.h"
#include "damacy/batch/slot_plan.h"
#include "damacy/batch/slots.h"

namespace damacy {

// The error for a consumer that holds all slots. `held`: batch ids, ascending.
[[nodiscard]] std::string held_text(const Config& config, const KeepLimit& limit, std::int64_t slot,
                                    const Slots::Added& added, const std::vector<std::int64_t>& held);

}  // namespace damacy
