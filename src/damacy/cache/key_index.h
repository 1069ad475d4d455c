// A hash table of a fixed size: hashes to numbers, several of which may have the same hash. Knows no keys. One thread
// at a time.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "damacy/core/prefetch.h"

namespace damacy {

class KeyIndex {
 public:
  using Number = std::uint32_t;

  explicit KeyIndex(std::size_t most) : places_(places_for(most)) {}
  static constexpr std::size_t bytes_of(std::size_t most) noexcept { return places_for(most) * sizeof(Place); }

  // `is_it`: whether a number of that hash is the one looked for.
  template <class IsIt>
  std::optional<Number> find(std::uint64_t hash, IsIt is_it) const {
    for (std::size_t at = home_of(hash); places_[at].number != kNone; at = next(at))
      if (places_[at].hash == hash && is_it(places_[at].number)) return places_[at].number;
    return {};
  }
  // The first number of that home; mostly the one that find() would give.
  std::optional<Number> first(std::uint64_t hash) const noexcept {
    const Number number = places_[home_of(hash)].number;
    return number == kNone ? std::nullopt : std::optional(number);
  }
  void prefetch(std::uint64_t hash) const noexcept { prefetch_for_reading(&places_[home_of(hash)]); }
  void insert(std::uint64_t hash, Number number) noexcept {
    std::size_t at = home_of(hash);
    while (places_[at].number != kNone) at = next(at);
    places_[at] = {hash, number};
  }
  void erase(std::uint64_t hash, Number number) noexcept {
    std::size_t hole = home_of(hash);
    while (places_[hole].number != number) hole = next(hole);
    // Moves later ones back that could not be found behind a hole.
    for (std::size_t at = next(hole); places_[at].number != kNone; at = next(at)) {
      const std::size_t mask = places_.size() - 1;
      if (((at - home_of(places_[at].hash)) & mask) < ((at - hole) & mask)) continue;
      places_[hole] = places_[at];
      hole = at;
    }
    places_[hole].number = kNone;
  }

 private:
  static constexpr Number kNone = ~Number{0};
  struct Place {
    std::uint64_t hash = 0;
    Number number = kNone;
  };
  static constexpr std::size_t places_for(std::size_t most) noexcept { return std::bit_ceil(most + most / 2 + 2); }
  std::size_t home_of(std::uint64_t hash) const noexcept { return hash & (places_.size() - 1); }
  std::size_t next(std::size_t at) const noexcept { return (at + 1) & (places_.size() - 1); }

  std::vector<Place> places_;
};

}  // namespace damacy
