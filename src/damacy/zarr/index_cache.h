// Cache of shard indices for single reads, by object, with a cap on entries. Thread-safe. Knows names and stamps; reads
// nothing. (Catalog has its own cache: for it a changed object is an error, here it is another object.)
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "damacy/store/store.h"
#include "damacy/zarr/shard_index.h"

namespace damacy {

// Shard indices by object. An index is reused only if its origin is the same, and if the object's stamp was old enough
// when it was taken that a later write would have changed it. A handle: copies share the cache.
class IndexCache {
 public:
  struct Origin {
    Stamp object;
    std::array<std::uint64_t, 2> array;  // Array::id() of the array whose document has the layout of the index
    friend bool operator==(const Origin&, const Origin&) = default;
  };

  IndexCache();
  std::optional<ShardIndex> find(const std::string& name, const Origin& origin);
  // `now_ns`: the system's time before the index was read, in the unit of Stamp::modified_ns.
  void keep(const std::string& name, const Origin& origin, std::int64_t now_ns, const ShardIndex& index);
  void drop(const std::string& name);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace damacy
