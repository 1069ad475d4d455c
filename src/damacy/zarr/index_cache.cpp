#include "damacy/zarr/index_cache.h"

#include "damacy/core/lru.h"
#include "damacy/core/mutex.h"
#include "damacy/store/noticed_change.h"

namespace damacy {
namespace {

constexpr std::size_t kIndices = 1024;

}  // namespace

struct IndexCache::State {
  struct Kept {
    Origin origin;
    ShardIndex index;
  };
  Mutex mutex;
  std::uint64_t uses DAMACY_GUARDED_BY(mutex) = 0;
  Lru<Kept> kept DAMACY_GUARDED_BY(mutex);
};

IndexCache::IndexCache() : state_(std::make_shared<State>()) {}

std::optional<ShardIndex> IndexCache::find(const std::string& name, const Origin& origin) {
  const Lock lock(state_->mutex);
  const State::Kept* const kept = state_->kept.use(name, ++state_->uses);
  if (kept == nullptr || !(kept->origin == origin)) return std::nullopt;
  return kept->index;
}

void IndexCache::keep(const std::string& name, const Origin& origin, std::int64_t now_ns, const ShardIndex& index) {
  if (!is_settled(origin.object, now_ns)) return;
  const Lock lock(state_->mutex);
  state_->kept.add(name, {origin, index}, ++state_->uses);
  state_->kept.trim(kIndices);
}

void IndexCache::drop(const std::string& name) {
  const Lock lock(state_->mutex);
  const auto at = state_->kept.find(name);
  if (at != state_->kept.end()) state_->kept.take(at);
}

}  // namespace damacy
