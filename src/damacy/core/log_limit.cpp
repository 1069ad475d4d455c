#include "damacy/core/log_limit.h"

#include "damacy/core/limits.h"

namespace damacy {
namespace {
constexpr Clock::Time kSecond = std::chrono::seconds(1);
}  // namespace

bool LogLimit::admits(std::string_view kind, Clock::Time now) {
  auto at = kinds_.find(kind);
  if (at == kinds_.end()) at = kinds_.emplace(std::string(kind), Second{now}).first;
  Second& second = at->second;
  if (now - second.began >= kSecond) second = {now, 0, second.kept_back};
  if (second.logged >= Limits::log_records_per_second) {
    ++second.kept_back;
    return false;
  }
  ++second.logged;
  return true;
}

std::vector<std::pair<std::string, std::uint64_t>> LogLimit::take_kept_back(Clock::Time now, bool all) {
  std::vector<std::pair<std::string, std::uint64_t>> taken;
  for (auto& [kind, second] : kinds_) {
    if (second.kept_back == 0 || !(all || now - second.began >= kSecond)) continue;
    taken.emplace_back(kind, second.kept_back);
    second.kept_back = 0;
  }
  return taken;
}

}  // namespace damacy
