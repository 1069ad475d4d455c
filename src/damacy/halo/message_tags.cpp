#include "damacy/halo/message_tags.h"

#include <algorithm>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/halo/spec.h"

namespace damacy::halo {

int MessageTags::take(int count) {
  count = std::max(count, 1);  // so that no two have the same first tag
  const Lock lock(mutex_);
  if (refuses_)
    throw Error(Status::inval,
                "an exchanger of this transport could not be constructed, and its messages may still arrive: make "
                "another transport, on all ranks",
                kMisuse);
  for (int from : {next_, first_}) {
    while (from <= last_ - count + 1) {
      const auto other = std::ranges::find_if(
          taken_, [&](const auto& own) { return own.first < from + count && from < own.first + own.second; });
      if (other == taken_.end()) {
        taken_[from] = count;
        next_ = from + count;
        return from;
      }
      from = other->first + other->second;
    }
  }
  throw Error(Status::inval,
              formatted("this transport has no {} tags left for another exchanger: close exchangers, or make another "
                        "transport",
                        count),
              kMisuse);
}

void MessageTags::give(int first) noexcept {
  const Lock lock(mutex_);
  taken_.erase(first);
}

void MessageTags::refuse() noexcept {
  const Lock lock(mutex_);
  refuses_ = true;
}

}  // namespace damacy::halo
