// From a started batch to located chunks: plans it, in portions if it is large, opens the shards, and hands each
// portion on.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>

#include "damacy/fetch/chunk_tasks.h"

namespace damacy {

using Planning = ChunkTasks::With;

// Calls `each` with every portion, whose chunks are found. Closes the task that start() left open.
void plan_portions(const std::shared_ptr<BatchJob>& job, const Planning& with, const std::stop_token& stop,
                   const std::function<void(const std::shared_ptr<ChunkTasks>&)>& each) noexcept;

}  // namespace damacy
