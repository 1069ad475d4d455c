// Which cores the threads of a rank keep to, where several processes of a run share a host: threads that wander between
// sockets copy from memory of the other one. Knows masks and lists of cores; not what the threads do.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace damacy {

// Of the calling thread's affinity mask, ascending; empty if the system does not say.
[[nodiscard]] std::vector<int> allowed_cores();

// Of a list as Linux writes it ("0-3,8"), ascending; empty for anything else.
[[nodiscard]] std::vector<int> cores_of_list(std::string_view list);

// The share of rank `rank` of `ranks`: allowed cores that follow each other, of those `near` its GPU where some are and
// some are not. The shares of ranks near the same cores do not overlap if their GPUs are in the order of the ranks.
// Empty for one rank, and where there are fewer cores than ranks: nothing is shared out then.
[[nodiscard]] std::vector<int> share_of_cores(const std::vector<int>& allowed, const std::vector<int>& near,
                                              std::size_t rank, std::size_t ranks);

// Threads that the calling thread starts meanwhile keep to `cores`, because a thread inherits the mask of the one that
// starts it; the calling thread gets its own mask back at the end. No effect if `cores` is empty or not allowed.
class OnCores {
 public:
  explicit OnCores(const std::vector<int>& cores);
  OnCores(const OnCores&) = delete;
  OnCores& operator=(const OnCores&) = delete;
  ~OnCores();

 private:
  std::vector<int> before_;  // empty: nothing was changed
};

}  // namespace damacy
