#include "damacy/single/keeping_sink.h"

#include <algorithm>
#include <utility>

#include "damacy/fetch/cached_task.h"
#include "damacy/store/noticed_change.h"

namespace damacy {

KeepingSink::KeepingSink(const SelectionJob& job, const std::shared_ptr<WantedChunks>& chunks, NameOf name_of,
                         std::int64_t begin_ns)
    : HostSink(chunks, job.memory_of_readers()),
      wanted_(*chunks),
      name_of_(std::move(name_of)),
      store_(*job.request.store),
      counters_(job.readers.counters()),
      cache_(job.request.keeps_indices ? job.request.cache : nullptr),
      begin_ns_(begin_ns) {
  if (!cache_) return;
  for (const std::uint64_t word : job.request.object->id()) array_.add(word);
  array_.add(store_.cache_identity());
}

// Empty unless any later change of the object will be noticed.
std::optional<ChunkKey> KeepingSink::key_of(std::size_t chunk) const {
  if (!cache_) return {};
  const Object& object = *wanted_.object_with(chunk);
  if (!has_version(store_, object)) return {};
  if (!store_.is_remote() && !is_settled(object.stamp(), begin_ns_)) return {};
  const Name name = name_of_(chunk);
  WideHash array = array_;
  array.add(name.object);
  return ChunkKey{array.value(), words_of(object.stamp()), static_cast<std::int64_t>(name.number)};
}

std::optional<ChunkTier::Hold> KeepingSink::find(std::uint32_t chunk) {
  const auto key = key_of(chunk);
  if (!key) return {};
  ChunkTier::Found found = cache_->find(*key, bytes_of(chunk));
  ++(found.hold ? counters_.cache_hits : counters_.cache_misses);
  may_be_kept_.resize(std::max<std::size_t>(may_be_kept_.size(), chunk + 1));
  may_be_kept_[chunk] = found.may_be_kept;
  return std::move(found.hold);
}

ChunkTier::Filling KeepingSink::reserve(std::size_t chunk) {
  const auto key = key_of(chunk);
  return key ? cache_->reserve(*key, bytes_of(chunk)) : ChunkTier::Filling();
}

ChunkReads place_kept(const std::shared_ptr<KeepingSink>& sink, Readers& readers) {
  std::unique_ptr<CachedTask> task;
  ChunkReads reads = find_reads(sink->chunks().wants(), [&](std::uint32_t chunk) {
    auto hold = sink->find(chunk);
    if (!hold) return false;
    if (!task) task = std::make_unique<CachedTask>(sink);
    task->add({chunk, std::move(*hold)});
    if (task->is_full(/*before_neighbour=*/false)) readers.submit_urgent(std::move(task));
    return true;
  });
  if (task) task->complete(0, {}, nullptr);
  return reads;
}

}  // namespace damacy
