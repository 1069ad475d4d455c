// Shard indices that single reads have learnt, by object; a cap on entries. Safe for several threads. Knows names and
// stamps; reads nothing. (Catalog keeps its own: there a changed object is an error, here it is another object.)
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "damacy/store/store.h"
#include "damacy/zarr/shard_index.h"

namespace damacy {

// Shard indices by object. One is used again only if the object's stamp is the same and was, when it was taken, too old
// for a later write to have left it as it is.
// A handle: copies share what is kept.
class IndexCache {
 public:
  IndexCache();
  std::optional<ShardIndex> find(const std::string& name, const Stamp& stamp);
  // `now_ns`: the system's time before the index was read, in the unit of Stamp::modified_ns.
  void keep(const std::string& name, const Stamp& stamp, std::int64_t now_ns, const ShardIndex& index);
  void drop(const std::string& name);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace damacy
