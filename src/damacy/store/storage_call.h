// Storage is asked on a thread of its own while the caller waits: so a call ends at the deadline of its operations, and
// a signal can end it before. Knows threads and times; not what is asked.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "damacy/core/clock.h"

namespace damacy {

struct StorageWaiting {
  // Called now and then, on the caller's thread. Throws what ends the wait.
  std::function<void()> while_waiting = {};
  std::shared_ptr<const Clock> clock = std::make_shared<SteadyClock>();
};

// Runs `work`; throws what it throws, or Error(io, "deadline") when one of its operations on watched stores had no
// answer in time. A thread that storage holds is left alone with `work`: that owns, or shares, all it uses.
void call_storage(std::function<void()> work, const StorageWaiting& waiting = {});

// What `work` gives.
template <class Work>
auto ask_storage(Work work, const StorageWaiting& waiting = {}) {
  const auto answer = std::make_shared<std::optional<decltype(work())>>();
  call_storage([answer, work = std::move(work)] { answer->emplace(work()); }, waiting);
  return std::move(**answer);
}

}  // namespace damacy
