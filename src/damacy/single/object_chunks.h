// The chunks of one stored object that a selection read needs: opens the object, locates, decodes and places them.
// Private to selection_read.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "damacy/fetch/chunk_reads.h"
#include "damacy/single/selection_job.h"
#include "damacy/zarr/catalog.h"

namespace damacy {

class ObjectChunks final : public ChunkSink, public EncodedChunks, public std::enable_shared_from_this<ObjectChunks> {
 public:
  // `items`: of the request, all with one key.
  ObjectChunks(std::shared_ptr<SelectionJob> job, std::span<const std::uint32_t> items);

  // Opens the object and locates the chunks. Fills missing chunks at once; the others remain to be read.
  ChunkReads open(std::stop_token stop);
  void fail_object(const Error& error) noexcept;

  EncodedChunks& tasks() noexcept override { return *this; }
  Arena& staging() noexcept override { return job_->memory->staging; }
  void fail_read(std::size_t chunk, const Error& why) noexcept override { fail(chunk, why); }
  void end() noexcept override { job_->memory_stays = true; }
  bool take(std::size_t thread, std::size_t chunk, std::span<const std::byte> packed,
            std::span<const ByteRange> available, std::stop_token stop) noexcept override;

  const ChunkPlace& where(std::size_t chunk) const override { return chunks_[chunk].place; }
  const std::shared_ptr<Object>& object_with(std::size_t chunk) const override {
    return objects_[chunks_[chunk].object];
  }
  const ArrayMetadata& metadata_of(std::size_t) const override { return array().metadata(); }
  std::vector<ByteRange> needed_bytes(std::size_t chunk) const override;
  StatsBoard& board() const noexcept override { return job_->workers.board(); }
  Task<Job> new_task() noexcept override { return Task<Job>(job_); }
  // A device gets whole chunks: it may find more frames than a part of them has.
  bool worth_reading_partially(std::size_t chunk) const override {
    return !job_->waves && EncodedChunks::worth_reading_partially(chunk);
  }
  void count_decode(StatsBoard::Span time, std::uint64_t encoded, std::uint64_t decoded) noexcept override;
  void fail_chunk(std::size_t chunk, const DecodeResult& result) noexcept override;

 private:
  struct Use {
    std::uint32_t selection;
    std::int64_t part;
  };
  struct Chunk {
    std::uint64_t number;  // in the object: chunks of one innermost shard follow one another
    std::uint32_t first_use;
    std::uint32_t use_count;
    std::uint32_t object = 0;  // of objects_
    ChunkPlace place = {};
  };
  const Array& array() const noexcept { return *job_->request.object; }
  const std::string& key() const { return job_->request.items[items_.front()].key; }
  std::span<const Use> uses_of(std::size_t chunk) const {
    return std::span(uses_).subspan(chunks_[chunk].first_use, chunks_[chunk].use_count);
  }
  void list_chunks();
  std::uint64_t number_of(const Dims& chunk) const noexcept;
  Dims coordinates_of(const Chunk& chunk) const;  // in the object
  void locate_chunks();
  Shard outermost_shard();
  ShardIndex index_of_object();
  void find_reads_of_objects(ChunkReads& reads) const;
  void place(std::size_t chunk, std::span<const std::byte> decoded, std::stop_token stop);
  // To a device.
  void stage_encoded(std::size_t chunk, std::span<const std::byte> packed, std::stop_token stop);
  WaveChunk wave_chunk(std::size_t chunk);
  void add_placements(std::size_t chunk, PlacementList& list, std::uint64_t address, const ChunkLayout& layout,
                      bool stored);
  void fill(std::size_t chunk, std::stop_token stop);
  Dims source_strides(bool stored) const;
  void fail(std::size_t chunk, const Error& error) noexcept;
  CopyOp copy_of(bool stored) const noexcept;

  std::shared_ptr<SelectionJob> job_;
  std::vector<std::uint32_t> items_;
  std::shared_ptr<Object> object_;
  std::vector<SplitSelection> selections_;  // by item
  std::vector<Use> uses_;
  std::vector<Chunk> chunks_;
  std::vector<std::shared_ptr<Object>> objects_;  // what chunks are read from: the file, or shards decoded from it
};

// The coordinates that a chunk key ends in; empty when it does not.
[[nodiscard]] std::optional<Dims> coordinates_in_key(const ArrayMetadata& metadata, std::string_view key);

}  // namespace damacy
