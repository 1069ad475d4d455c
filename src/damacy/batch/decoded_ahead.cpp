#include "damacy/batch/decoded_ahead.h"

#include <new>

namespace damacy {

DecodedAhead::Wanted::Wanted(std::shared_ptr<DecodedAhead> of, std::span<const Place> places) : Wanted(std::move(of)) {
  places_.reserve(places.size());
  const Lock lock(of_->mutex_);
  if (!of_->memory_ && !places.empty()) of_->memory_.emplace(of_->alloc_, of_->bytes_);
  for (const Place place : places) {
    ++of_->wants_[place].batches;
    places_.push_back(place);
  }
}

DecodedAhead::Wanted::~Wanted() {
  const Lock lock(of_->mutex_);
  for (const Place place : places_) {
    const auto at = of_->wants_.find(place);
    if (--at->second.batches > 0) continue;
    of_->forget_chunk(place, at->second);
    of_->wants_.erase(at);
  }
}

void DecodedAhead::name(std::span<const Named> chunks) {
  const Lock lock(mutex_);
  for (const auto& [place, id] : chunks) {
    const auto at = wants_.find(place);
    if (at == wants_.end() || at->second.id == id) continue;
    forget_chunk(place, at->second);
    places_.insert_or_assign(id, place);
    at->second.id = id;
  }
}

// What is there now is another version of it, or is not wanted any more.
void DecodedAhead::forget_chunk(Place place, Wants& wants) noexcept {
  if (wants.id)
    if (const auto at = places_.find(*wants.id); at != places_.end() && at->second == place) places_.erase(at);
  wants.id.reset();
  const auto entry = std::exchange(wants.entry, std::nullopt);
  if (!entry) return;
  Entry& old = entries_.find(*entry)->second;
  old.is_wanted = false;
  if (old.is_whole) counts_.evicted.add(old.memory.bytes().size());
  if (old.users == 0) entries_.erase(*entry);
}

DecodedAhead::Wants* DecodedAhead::wants_of(const ChunkKey& key) {
  const auto at = places_.find(key);
  return at == places_.end() ? nullptr : &wants_.find(at->second)->second;
}

ChunkTier::Found DecodedAhead::find(const ChunkKey& key, std::uint64_t bytes) {
  const Lock lock(mutex_);
  const Wants* const wants = wants_of(key);
  Entry* const entry = wants && wants->entry ? &entries_.find(*wants->entry)->second : nullptr;
  if (!entry || !entry->is_whole || !is_size_of(entry->memory.bytes().size(), bytes)) {
    counts_.misses.add(bytes);
    return {};
  }
  counts_.hits.add(bytes);
  ++entry->users;
  return {.hold = Hold(*this, *wants->entry, 0, entry->memory.bytes(), {})};
}

bool DecodedAhead::has(const ChunkKey& key) const {
  const Lock lock(mutex_);
  const auto place = places_.find(key);
  if (place == places_.end()) return false;
  const auto entry = wants_.find(place->second)->second.entry;
  return entry && entries_.find(*entry)->second.is_whole;
}

ChunkTier::Filling DecodedAhead::reserve(const ChunkKey& key, std::uint64_t bytes, std::uint64_t) {
  const Lock lock(mutex_);
  Wants* const wants = wants_of(key);
  if (!wants || wants->entry) return {};
  const std::uint32_t number = ++last_entry_;
  try {
    const auto [at, is_new] = entries_.try_emplace(number);
    if (!is_new) return {};
    Entry& entry = at->second;
    entry = {.memory = memory_->try_take(bytes), .place = places_.find(key)->second, .users = 1};
    if (entry.memory.bytes().empty()) {
      entries_.erase(at);
      return {};
    }
    wants->entry = number;
    return {*this, number, entry.memory.bytes(), {}};
  } catch (const std::bad_alloc&) {
    return {};
  }
}

ChunkTier::Hold DecodedAhead::publish(std::uint32_t number) noexcept {
  const Lock lock(mutex_);
  Entry& entry = entries_.find(number)->second;
  entry.is_whole = true;
  counts_.kept.add(entry.memory.bytes().size());
  return {*this, number, 0, entry.memory.bytes(), {}};
}

void DecodedAhead::discard(std::uint32_t number) noexcept {
  const Lock lock(mutex_);
  const auto at = entries_.find(number);
  if (at->second.is_wanted) wants_.find(at->second.place)->second.entry.reset();
  entries_.erase(at);
}

void DecodedAhead::release(std::uint32_t number) noexcept {
  const Lock lock(mutex_);
  const auto at = entries_.find(number);
  if (--at->second.users == 0 && !at->second.is_wanted) entries_.erase(at);
}

std::size_t DecodedAhead::peak() const noexcept {
  const Lock lock(mutex_);
  return memory_ ? memory_->peak() : 0;
}

ChunkTier::Counts DecodedAhead::counts() const {
  const Lock lock(mutex_);
  return counts_;
}

void DecodedAhead::reset_counts() {
  const Lock lock(mutex_);
  counts_ = {};
}

}  // namespace damacy
