// A remote store whose chunks, indices and documents are kept in a disk tier. A piece is read from the tier only for
// the version of the object that the store vouches for: the one that it opened now or, where objects never change, the
// one that it opened before. Knows stores, versions and the tier; not what the pieces are.
#pragma once

#include <memory>

#include "damacy/cache/disk/disk_tier.h"
#include "damacy/store/store.h"

namespace damacy {

// The same store if nothing tells it from others, or if it is not remote.
[[nodiscard]] std::shared_ptr<Store> make_cached_store(std::shared_ptr<Store> store, std::shared_ptr<DiskTier> tier);

}  // namespace damacy
