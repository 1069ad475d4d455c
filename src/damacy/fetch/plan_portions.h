// Plans a started batch, in portions if it is large, opens the shards, and passes on each portion with located chunks.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>

#include "damacy/fetch/chunk_tasks.h"

namespace damacy {

using Planning = ChunkTasks::With;

// Calls `each` with every portion after its chunks are located. The task keeps the batch unfinished meanwhile.
void plan_portions(const Task<BatchJob>& task, const Planning& with, const std::stop_token& stop,
                   const std::function<void(const std::shared_ptr<ChunkTasks>&)>& each) noexcept;

}  // namespace damacy
