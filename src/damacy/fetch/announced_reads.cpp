#include "damacy/fetch/announced_reads.h"

#include "damacy/core/error.h"
#include "damacy/zarr/shard.h"

namespace damacy {

// A chunk without a shard is asked for as a whole: encoded it is hardly larger than decoded, by less than what codecs
// add to bytes that do not shrink. Of a shard, its index.
RemoteObject remote_object(const Array& array, std::shared_ptr<Store> store, std::string key) {
  const std::vector<ShardLevel>& levels = array.metadata().shards;
  const auto decoded = static_cast<std::uint64_t>(array.metadata().chunk_bytes());
  RemoteObject object{std::move(store), std::move(key), decoded + decoded / 256 + 128};
  if (levels.empty()) {
    object.reads = 1;
    return object;
  }
  const ShardIndexLayout& index = levels.front().index;
  const bool is_encoded = !levels.front().codecs.codecs().empty();
  object.bytes = is_encoded ? 0 : ShardIndex::encoded_bytes(array.entries_of(0), index);
  object.from_end = !is_encoded && index.at_end;
  return object;
}

std::vector<RemoteObject> remote_objects(const BatchPlan& plan) {
  std::vector<RemoteObject> objects;
  for (const PlannedShard& shard : plan.shards) {
    const Array& array = *plan.arrays[shard.array];
    if (shard.is_constant || !array.is_remote()) continue;
    objects.push_back(remote_object(array, array.store(), array.key_of_shard(shard.shard)));
  }
  return objects;
}

void expect(std::span<const RemoteObject> objects, std::size_t announced) {
  static_cast<void>(failure_of([&] {
    for (std::size_t i = 0; i < objects.size(); ++i) {
      const RemoteObject& object = objects[i];
      object.store->expect(object.key, {object.bytes, object.from_end, i < announced ? 0 : object.reads, object.again});
    }
  }));
}

void AnnouncedReads::end() noexcept {
  for (const RemoteObject& object : objects_)
    if (object.reads > 0) object.store->unexpect(object.key);
  objects_.clear();
}

}  // namespace damacy
