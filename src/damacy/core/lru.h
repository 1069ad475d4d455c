// A map that records the last use of each entry. Knows keys and order; not why an entry is evicted. Not thread-safe:
// the owner has a lock.
#pragma once

#include <cstdint>
#include <iterator>
#include <list>
#include <string>
#include <unordered_map>
#include <utility>

namespace damacy {

template <class T>
class Lru {
 public:
  struct Entry {
    std::string key;
    T value;
    std::uint64_t last_use;
  };
  using Place = typename std::list<Entry>::iterator;

  // Null if absent; otherwise marks the entry as used at `now`.
  T* use(const std::string& key, std::uint64_t now) {
    const auto at = places_.find(key);
    if (at == places_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, at->second);
    at->second->last_use = now;
    return &at->second->value;
  }
  // Replaces the entry of `key`.
  void add(std::string key, T value, std::uint64_t now) {
    if (const auto at = find(key); at != end()) take(at);
    entries_.push_front({std::move(key), std::move(value), now});
    places_[entries_.front().key] = entries_.begin();
  }
  T take(Place place) {
    T value = std::move(place->value);
    places_.erase(place->key);
    entries_.erase(place);
    return value;
  }
  // Evicts all but the `cap` most recently used entries; keeps at least one.
  void trim(std::size_t cap) {
    while (entries_.size() > cap && entries_.size() > 1) take(std::prev(entries_.end()));
  }
  // The least recently used entry for which `may_go` is true; end() if there is none.
  template <class MayGo>
  Place oldest(MayGo may_go) {
    for (auto place = entries_.end(); place != entries_.begin();)
      if (may_go((--place)->value)) return place;
    return entries_.end();
  }
  Place find(const std::string& key) {
    const auto at = places_.find(key);
    return at == places_.end() ? entries_.end() : at->second;
  }
  Place end() noexcept { return entries_.end(); }

 private:
  std::list<Entry> entries_;  // used last first
  std::unordered_map<std::string, Place> places_;
};

}  // namespace damacy
