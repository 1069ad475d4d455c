#include "damacy/single/process_readers.h"

#include <algorithm>

#include "damacy/core/fork.h"

namespace damacy {

std::shared_ptr<SelectionReaders> ProcessReaders::with_threads(std::size_t threads) {
  threads = std::max<std::size_t>(threads, 1);
  const Lock lock(mutex_);
  auto& found = by_threads_[threads];
  if (!found) found = std::make_shared<SelectionReaders>(threads, indices_);
  return found;
}

std::vector<std::shared_ptr<SelectionReaders>> ProcessReaders::all() {
  const Lock lock(mutex_);
  std::vector<std::shared_ptr<SelectionReaders>> found;
  for (const auto& [threads, one] : by_threads_) found.push_back(one);
  return found;
}

ProcessReaders& process_readers() {
  return one_per_process<ProcessReaders>();
}

}  // namespace damacy
