// Buffers that are not in use. The newest of a kind is lent first; the oldest in a memory go first if too many bytes
// are idle there. Knows keys and bytes; not what a buffer is. For one thread at a time.
#pragma once

#include <cstddef>
#include <iterator>
#include <list>
#include <map>
#include <optional>
#include <utility>

#include "damacy/core/on_failure.h"

namespace damacy::halo {

// Buffers of one key are alike. `Place`: the memory that a buffer is in. Both are ordered by <.
template <class Key, class Place, class Buffer>
class IdleBuffers {
 public:
  struct Entry {
    Key key;
    Place place;
    std::size_t bytes;
    Buffer buffer;
  };
  using Entries = std::list<Entry>;

  void add(Entry entry) {
    std::size_t& bytes = bytes_[entry.place];
    entries_.push_back(std::move(entry));
    const auto newest = std::prev(entries_.end());
    const OnFailure undo([this] { entries_.pop_back(); });
    by_key_.emplace(newest->key, newest);
    bytes += newest->bytes;
  }

  // The newest one with this key.
  std::optional<Entry> take(const Key& key) {
    const auto end = by_key_.upper_bound(key);
    if (end == by_key_.begin() || key < std::prev(end)->first || std::prev(end)->first < key) return std::nullopt;
    Entries taken;
    move_to(taken, std::prev(end)->second);
    return std::move(taken.front());
  }

  // The oldest ones of the place, so that no more than `most` bytes stay idle there.
  Entries drop(const Place& place, std::size_t most) {
    Entries dropped;
    for (auto at = entries_.begin(); at != entries_.end() && bytes(place) > most;) {
      const auto next = std::next(at);
      if (at->place == place) move_to(dropped, at);
      at = next;
    }
    return dropped;
  }

  // The oldest one; nothing if there is none.
  Entries drop_oldest() {
    Entries dropped;
    if (!entries_.empty()) move_to(dropped, entries_.begin());
    return dropped;
  }

  std::size_t bytes(const Place& place) const {
    const auto found = bytes_.find(place);
    return found == bytes_.end() ? 0 : found->second;
  }
  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const auto& [place, bytes] : bytes_) sum += bytes;
    return sum;
  }

 private:
  void move_to(Entries& other, typename Entries::iterator entry) {
    auto known = by_key_.lower_bound(entry->key);
    while (known->second != entry) ++known;
    by_key_.erase(known);
    bytes_[entry->place] -= entry->bytes;
    other.splice(other.end(), entries_, entry);
  }

  Entries entries_;  // oldest first
  std::multimap<Key, typename Entries::iterator> by_key_;
  std::map<Place, std::size_t> bytes_;
};

}  // namespace damacy::halo
