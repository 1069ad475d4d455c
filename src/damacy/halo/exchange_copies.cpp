#include "damacy/halo/exchange_copies.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace damacy::halo {
namespace {

constexpr std::size_t kMostKnown = 32;

}  // namespace

ExchangeCopies::ExchangeCopies(const ExchangePlan& plan, int slots) {
  for (const ExchangePhase& phase : plan.phases()) plans_.push_back({plan.pack(phase), plan.unpack(phase)});
  messages_.assign(static_cast<std::size_t>(slots), std::vector<Messages>(plans_.size()));
}

void ExchangeCopies::set_messages(int slot, std::size_t phase, Addresses sends, Addresses receives) {
  messages_.at(static_cast<std::size_t>(slot)).at(phase) = {std::move(sends), std::move(receives)};
}

ExchangeCopies::Copies ExchangeCopies::bound(const Compiled& compiled, const Addresses& arrays,
                                             const Addresses& messages) {
  if (compiled.plan->phases().empty()) return {};
  Addresses bases = arrays;
  for (const auto message : compiled.message_of_slot) bases.push_back(messages.at(message));
  if (arrays.size() > 1) copy::check_overlaps(*compiled.plan, bases);  // arrays may share memory
  return {compiled.plan, std::make_shared<const Addresses>(std::move(bases))};
}

ExchangeCopies::Phases ExchangeCopies::of(int slot, const Addresses& arrays) {
  const auto known =
      std::ranges::find_if(known_, [&](const Known& one) { return one.slot == slot && one.arrays == arrays; });
  if (known != known_.end()) {
    std::rotate(known_.begin(), known, std::next(known));
    return known_.front().phases;
  }
  std::vector<Phase> phases;
  const auto& messages = messages_.at(static_cast<std::size_t>(slot));
  for (std::size_t n = 0; n < plans_.size(); ++n)
    phases.push_back(
        {bound(*plans_[n].pack, arrays, messages[n].sends), bound(*plans_[n].unpack, arrays, messages[n].receives)});
  known_.push_front({slot, arrays, std::make_shared<const std::vector<Phase>>(std::move(phases))});
  if (known_.size() > kMostKnown) known_.pop_back();
  return known_.front().phases;
}

}  // namespace damacy::halo
