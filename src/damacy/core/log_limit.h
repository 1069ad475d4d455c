// How often records of one kind may be told: ten in a second, then how many more there were. Knows kinds and times;
// does not log.
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
  // Whether one more record of the kind may be told now.
  bool admits(std::string_view kind, Clock::Time now);
  // Kinds of which records were kept back in a second that is over (`all`: in this one too), with their number; it is
  // then forgotten.
  std::vector<std::pair<std::string, std::uint64_t>> take_kept_back(Clock::Time now, bool all);

 private:
  struct Second {
    Clock::Time began{};
    std::uint64_t told = 0;
    std::uint64_t kept_back = 0;
  };
  std::map<std::string, Second, std::less<>> kinds_;
};

}  // namespace damacy
