// Slots are taken from the end.
#include "damacy/halo/in_flight.h"

#include <algorithm>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/halo/spec.h"

namespace damacy::halo {

InFlight::InFlight(int depth) : depth_(static_cast<std::size_t>(std::max(depth, 0))) {
  if (depth < 1) throw Error(Status::inval, formatted("depth {}", depth));
  for (int slot = depth - 1; slot >= 0; --slot) free_.push_back(slot);
}

void InFlight::check() const {
  if (!refusal_.empty()) throw Error(Status::inval, refusal_, kMisuse);
}

int InFlight::next() const {
  check();
  if (posted_) return *posted_;
  if (free_.empty())
    throw Error(Status::inval,
                formatted("{} exchanges are in flight already: finish one, or pass a larger depth", depth_), kMisuse);
  return free_.back();
}

void InFlight::send(int slot) {
  posted_.reset();
  std::erase(free_, slot);
  sent_.push_back(slot);
}

void InFlight::finish(int slot) {
  std::erase(sent_, slot);
  free_.push_back(slot);
}

void InFlight::refuse_after(const std::string& failure) {
  refusal_ = formatted("an exchange failed half way ({}); close this exchanger and make another one", failure);
}

}  // namespace damacy::halo
