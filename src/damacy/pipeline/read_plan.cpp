#include "damacy/pipeline/read_plan.h"

#include <algorithm>
#include <set>

#include "damacy/core/limits.h"
#include "damacy/fetch/chunk_reads.h"
#include "damacy/pipeline/admission.h"
#include "damacy/zarr/stored_chunk.h"

namespace damacy {
namespace {

constexpr Catalog::Limits kLimits{};

// Every shard and every chunk by itself, for the error of the first that is wrong.
void check_all_found(Catalog& catalog, const BatchPlan& plan) {
  for (const PlannedShard& planned : plan.shards) {
    const Array& array = *plan.arrays[planned.array];
    const auto shard = catalog.shard(array, planned.shard);
    if (!shard) {
      catalog.check_missing_chunk(array);
      continue;
    }
    try {
      for (std::uint32_t c = planned.first_chunk; c < planned.first_chunk + planned.chunk_count; ++c)
        static_cast<void>(find_stored_chunk(array, *shard, plan.chunks[c].index_in_shard));
    } catch (Error& error) {
      throw error.at_uri(array.uri()).at_store(array.store()->name()).at_key(shard->key);
    }
  }
}

class Planner {
 public:
  Planner(const PlannedSample& sample, ReadPlan& out) : sample_(sample), out_(out) {}

  void add_portion(const std::shared_ptr<Catalog>& catalog, BatchPlan plan) {
    check_all_found(*catalog, plan);
    const auto job =
        std::make_shared<BatchJob>(BatchJob::Shape{0, 0, sample_.box.extents(), Dtype::f32, OnError::raise}, 1);
    job->set_rows(std::vector{sample_});
    StatsBoard board;
    ChunkTasks tasks(job, std::move(plan), {nullptr, board, catalog});
    for (std::size_t s = 0; s < tasks.plan().shards.size(); ++s) tasks.open_shard(s);
    tasks.find_chunks();
    for (std::size_t c = 0; c < tasks.plan().chunks.size(); ++c) count(tasks, c);
    const ChunkReads reads = find_reads(tasks, [](std::uint32_t) { return false; });
    for (const ChunkRun& run : reads.runs) add_run(tasks, run);
    for (const std::uint32_t chunk : reads.partial) add_partial(tasks, chunk);
  }

  void finish() {
    std::sort(out_.reads.begin(), out_.reads.end(), [](const PlannedRead& a, const PlannedRead& b) {
      return a.key != b.key ? a.key < b.key : a.offset < b.offset;
    });
    out_.objects = static_cast<std::int64_t>(objects_.size());
    for (const PlannedRead& read : out_.reads) out_.read_bytes += read.bytes;
  }

 private:
  void count(const ChunkTasks& tasks, std::size_t chunk) {
    ++out_.chunks;
    const ChunkTasks::Where& where = tasks.where(chunk);
    if (where.missing) {
      ++out_.missing_chunks;
      return;
    }
    objects_.insert(key_of(tasks, chunk));
    out_.stored_bytes += where.bytes;
    out_.decoded_bytes += sample_.array->metadata().chunk_bytes();
  }

  std::string key_of(const ChunkTasks& tasks, std::size_t chunk) const {
    return sample_.array->key_of_shard(tasks.plan().shards[tasks.shard_of(chunk)].shard);
  }

  Dims coordinates(const ChunkTasks& tasks, std::size_t chunk) const {
    return chunk_coordinates(*sample_.array, tasks.plan().chunks[chunk].number);
  }

  void add_run(const ChunkTasks& tasks, const ChunkRun& run) {
    PlannedRead read{key_of(tasks, run.chunks.front()), run.offset, run.bytes, 0, false, {}};
    for (const std::uint32_t chunk : run.chunks) {
      read.wanted_bytes += tasks.where(chunk).bytes;
      read.chunks.push_back(coordinates(tasks, chunk));
    }
    out_.reads.push_back(std::move(read));
  }

  void add_partial(const ChunkTasks& tasks, std::uint32_t chunk) {
    const ChunkTasks::Where& where = tasks.where(chunk);
    if (!sample_.array->metadata().codecs.is_raw()) {
      out_.reads.push_back(
          {key_of(tasks, chunk), where.offset, where.bytes, where.bytes, true, {coordinates(tasks, chunk)}});
      return;
    }
    for (const ByteRange& range : tasks.needed_bytes(chunk))
      out_.reads.push_back({key_of(tasks, chunk),
                            where.offset + range.begin,
                            range.size(),
                            range.size(),
                            false,
                            {coordinates(tasks, chunk)}});
  }

  const PlannedSample& sample_;
  ReadPlan& out_;
  std::set<std::string> objects_;
};

}  // namespace

ReadPlan plan_reads(const Sample& sample) {
  const auto catalog = std::make_shared<Catalog>(kLimits);
  Config config;
  config.batch_size = 1;
  const PlannedSample admitted = admit(sample, config, std::nullopt, [&] { return catalog->array(sample.uri); });
  const Array& array = *admitted.array;
  ReadPlan out;
  out.store = array.store()->name();
  out.shape = array.metadata().shape;
  out.chunk_shape = array.metadata().chunk_shape;
  out.dtype = name_of(array.metadata().dtype);
  out.box_bytes = static_cast<std::uint64_t>(*product(admitted.box.extents().span())) * size_of(array.metadata().dtype);
  Planner planner(admitted, out);
  const std::vector samples{admitted};
  const std::uint32_t portions = count_portions(samples, Limits::chunk_records_planned);
  for (std::uint32_t portion = 0; portion < portions; ++portion)
    planner.add_portion(catalog, plan_batch(samples, portion, portions));
  planner.finish();
  return out;
}

}  // namespace damacy
