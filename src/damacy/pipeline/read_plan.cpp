#include "damacy/pipeline/read_plan.h"

#include <algorithm>
#include <memory>
#include <set>

#include "damacy/batch/memory_plan.h"
#include "damacy/core/limits.h"
#include "damacy/fetch/chunk_reads.h"
#include "damacy/pipeline/admission.h"
#include "damacy/plan/part_copies.h"
#include "damacy/zarr/catalog.h"
#include "damacy/zarr/shard.h"

namespace damacy {
namespace {

constexpr Catalog::Limits kLimits{};

// The chunks of one sample's plan, located.
class PlannedChunks {
 public:
  // Throws the error of the first shard or chunk that is wrong.
  PlannedChunks(const PlannedPart& part, BatchPlan plan, Catalog& catalog) : part_(part), plan_(std::move(plan)) {
    wants_.arrays = {&part.array->metadata()};
    wants_.objects.resize(plan_.shards.size());
    for (std::uint32_t s = 0; s < plan_.shards.size(); ++s) locate(s, catalog);
    choose_parts(wants_, [this](std::size_t chunk) { return std::vector{needed(chunk)}; });
  }

  const Wants& wants() const noexcept { return wants_; }
  ByteRange needed(std::size_t chunk) const { return bytes_needed(part_, {*part_.array, plan_.chunks[chunk].number}); }
  std::string key_of(std::size_t chunk) const {
    return part_.array->key_of_shard(plan_.shards[wants_.chunks[chunk].object].shard);
  }
  Dims coordinates(std::size_t chunk) const { return chunk_coordinates(*part_.array, plan_.chunks[chunk].number); }

 private:
  void locate(std::uint32_t number, Catalog& catalog) {
    const Array& array = *part_.array;
    const PlannedShard& planned = plan_.shards[number];
    const auto shard = catalog.shard(array, planned.shard);
    if (!shard) catalog.check_missing_chunk(array, array.key_of_shard(planned.shard));
    if (shard) wants_.objects[number] = shard->object;
    try {
      for (std::uint32_t c = planned.first_chunk; c < planned.first_chunk + planned.chunk_count; ++c) {
        const ChunkPlace place = place_of_chunk(array, shard.get(), plan_.chunks[c].index_in_shard);
        wants_.chunks.push_back({.place = place, .object = number});
      }
    } catch (Error& error) {
      throw error.at_uri(array.uri()).at_store(array.store()->name()).at_key(shard->key);
    }
  }

  const PlannedPart& part_;
  BatchPlan plan_;
  Wants wants_;  // the shards are its objects
};

// Sums up what the portions of a plan read.
class Planner {
 public:
  Planner(const PlannedPart& part, Listed listed, ReadPlan& out) : part_(part), listed_(listed), out_(out) {}

  void add_portion(const PlannedChunks& chunks) {
    for (std::size_t c = 0; c < chunks.wants().chunks.size(); ++c) count(chunks, c);
    if (listed_ == Listed::no) return;
    const ChunkReads reads = find_reads(chunks.wants());
    for (const ChunkRun& run : reads.runs) add_run(chunks, run);
    for (const std::uint32_t chunk : reads.partial) add_partial(chunks, chunk);
  }

  void finish() {
    std::sort(out_.reads.begin(), out_.reads.end(), [](const PlannedRead& a, const PlannedRead& b) {
      return a.key != b.key ? a.key < b.key : a.offset < b.offset;
    });
    out_.objects = static_cast<std::int64_t>(objects_.size());
    for (const PlannedRead& read : out_.reads) out_.read_bytes += read.bytes;
  }

 private:
  void count(const PlannedChunks& chunks, std::size_t chunk) {
    ++out_.chunks;
    const ChunkPlace& where = chunks.wants().where(chunk);
    if (where.missing) {
      ++out_.missing_chunks;
      return;
    }
    objects_.insert(chunks.key_of(chunk));
    out_.stored_bytes += where.bytes;
    out_.decoded_bytes += part_.array->metadata().chunk_bytes();
  }

  void add_run(const PlannedChunks& chunks, const ChunkRun& run) {
    PlannedRead read{chunks.key_of(run.chunks.front()), run.offset, run.bytes, 0, false, {}};
    for (const std::uint32_t chunk : run.chunks) {
      read.wanted_bytes += chunks.wants().where(chunk).bytes;
      read.chunks.push_back(chunks.coordinates(chunk));
    }
    out_.reads.push_back(std::move(read));
  }

  void add_partial(const PlannedChunks& chunks, std::uint32_t chunk) {
    const ChunkPlace& where = chunks.wants().where(chunk);
    const auto add = [&](ByteRange range, bool at_most) {
      out_.reads.push_back({chunks.key_of(chunk),
                            where.offset + range.begin,
                            range.size(),
                            range.size(),
                            at_most,
                            {chunks.coordinates(chunk)}});
    };
    if (!part_.array->metadata().codecs.is_raw()) return add({0, where.bytes}, true);
    add(chunks.needed(chunk), false);
  }

  const PlannedPart& part_;
  const Listed listed_;
  ReadPlan& out_;
  std::set<std::string> objects_;
};

}  // namespace

ReadPlan plan_reads(const Sample& sample, Listed reads) {
  Catalog catalog(kLimits);
  Config config;
  config.batch_size = 1;
  const PlannedPart admitted =
      admit_box(sample, config, [&](const std::string& uri) { return OpenedArray{catalog.array(uri)}; });
  const Array& array = *admitted.array;
  ReadPlan out;
  out.store = array.store()->name();
  out.shape = array.metadata().shape;
  out.chunk_shape = array.metadata().chunk_shape;
  out.dtype = name_of(array.metadata().dtype);
  out.box_bytes = static_cast<std::uint64_t>(*product(admitted.box.extents().span())) * size_of(array.metadata().dtype);
  out.buffer_bytes =
      static_cast<std::uint64_t>(buffer_bytes_for(static_cast<std::int64_t>(array.metadata().chunk_bytes())));
  Planner planner(admitted, reads, out);
  const std::vector parts{admitted};
  const std::uint32_t portions = count_portions(parts, Limits::chunk_records_planned);
  for (std::uint32_t portion = 0; portion < portions; ++portion)
    planner.add_portion({admitted, plan_batch(parts, portion, portions), catalog});
  planner.finish();
  return out;
}

}  // namespace damacy
