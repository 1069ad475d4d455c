// Runs storage calls on a separate thread while the caller waits, so that the wait ends at the deadline of the
// operations, or earlier by a signal. Knows threads and times; not what is called.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "damacy/core/clock.h"

namespace damacy {

struct StorageWaiting {
  // Called periodically on the caller's thread. Throws to end the wait.
  std::function<void()> while_waiting = {};
  std::shared_ptr<const Clock> clock = std::make_shared<SteadyClock>();
};

// Runs `work`. Throws what it throws, or Error(io, "deadline") if one of its operations on watched stores exceeded the
// deadline. A stuck thread is detached with `work`, which must own or share everything that it uses.
void call_storage(std::function<void()> work, const StorageWaiting& waiting = {});

// Returns the result of `work`.
template <class Work>
auto storage_result(Work work, const StorageWaiting& waiting = {}) {
  const auto answer = std::make_shared<std::optional<decltype(work())>>();
  call_storage([answer, work = std::move(work)] { answer->emplace(work()); }, waiting);
  return std::move(**answer);
}

}  // namespace damacy
