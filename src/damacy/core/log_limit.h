// Rate limit for log records: ten of one kind per second, then the number of dropped ones. Knows kinds and times; does
// not log.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "damacy/core/clock.h"

namespace damacy {

class LogLimit {
 public:
  // Whether one more record of the kind may be logged now.
  bool admits(std::string_view kind, Clock::Time now);
  // Removes and returns the kinds with records dropped in a past second (`all`: also in the current one), with the
  // number of dropped records.
  std::vector<std::pair<std::string, std::uint64_t>> take_kept_back(Clock::Time now, bool all);

 private:
  struct Second {
    Clock::Time began{};
    std::uint64_t logged = 0;
    std::uint64_t kept_back = 0;
  };
  std::map<std::string, Second, std::less<>> kinds_;
};

}  // namespace damacy
