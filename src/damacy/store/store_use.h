// What the owner of a remote store settles for itself, besides StoreOptions. Knows values only.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

namespace damacy {

class NetworkCounts;

struct StoreUse {
  std::shared_ptr<NetworkCounts> counts{};            // of the requests that the store makes itself; null: none
  std::optional<std::size_t> head_bytes{};            // asked for when an object is opened; empty: the usual
  std::optional<std::vector<int>> repeated_status{};  // which answers are asked for again; empty: the usual
  std::optional<int> attempts{};                      // in place of those of the options
  std::optional<double> deadline_s{};
};

}  // namespace damacy
