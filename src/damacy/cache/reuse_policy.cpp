#include "damacy/cache/reuse_policy.h"

#include <algorithm>

namespace damacy {
namespace {

constexpr ReusePolicy::Time kFraction = 4;  // `longest` is in such parts of a look-up, and shrinks by one a look-up
// So many chunks never seen, as a part of the entries, are a change of the set.
constexpr std::size_t kChangedPart = 16;
constexpr std::size_t kLeastChanged = 8;

constexpr std::uint32_t tag_of(std::uint64_t hash) noexcept {
  return static_cast<std::uint32_t>(hash) | 1;
}

}  // namespace

ReusePolicy::Time ReusePolicy::hit(Time last_used) noexcept {
  ++memory_->now;
  used_again_after(memory_->now - last_used);
  return memory_->now;
}

void ReusePolicy::miss(std::uint64_t hash, std::size_t entries) noexcept {
  if (const Seen* const seen = find(hash)) {
    ++memory_->now;
    used_again_after(static_cast<std::uint32_t>(memory_->now) - seen->when);
  } else {
    never_seen(entries);
  }
  remember(hash, memory_->now);
}

void ReusePolicy::used_again_after(Time interval) noexcept {
  memory_->longest = std::max(interval * kFraction, memory_->longest - std::min<Time>(memory_->longest, 1));
  if (memory_->unseen > 0) --memory_->unseen;
  if (memory_->unseen == 0) memory_->unseen_since = memory_->now;
}

void ReusePolicy::never_seen(std::size_t entries) noexcept {
  ++memory_->unseen;
  if (memory_->unseen >= entries / kChangedPart + kLeastChanged) memory_->changed = memory_->unseen_since;
}

// In a random order an interval may be longer than all that were observed, hence the half.
bool ReusePolicy::may_go(Time last_used) const noexcept {
  const bool is_stale =
      memory_->longest > 0 && (memory_->now - last_used) * kFraction > memory_->longest + memory_->longest / 2;
  return last_used < memory_->changed || is_stale;
}

ReusePolicy::Bucket& ReusePolicy::bucket_of(std::uint64_t hash) noexcept {
  return memory_[((hash >> 32) * memory_.size()) >> 32];
}

ReusePolicy::Seen* ReusePolicy::find(std::uint64_t hash) noexcept {
  for (Seen& seen : bucket_of(hash))
    if (seen.tag == tag_of(hash)) return &seen;
  return nullptr;
}

// Replaces the chunk of the bucket that was seen longest ago.
void ReusePolicy::remember(std::uint64_t hash, Time when) noexcept {
  Seen* place = find(hash);
  if (place == nullptr) {
    const auto age = [&](const Seen& seen) {
      return seen.tag == 0 ? ~std::uint32_t{0} : static_cast<std::uint32_t>(memory_->now) - seen.when;
    };
    place = &*std::ranges::max_element(bucket_of(hash), {}, age);
  }
  *place = {tag_of(hash), static_cast<std::uint32_t>(when)};
}

}  // namespace damacy
