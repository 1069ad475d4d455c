// The chunks of one stored object that a selection read wants: opens the object, locates them, and says which copies
// bring their elements to the output. Private to selection_read.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "damacy/fetch/wanted_chunks.h"
#include "damacy/single/selection_job.h"
#include "damacy/zarr/catalog.h"

namespace damacy {

class ObjectChunks final : public WantedChunks {
 public:
  // `items`: of the request, all with one key.
  ObjectChunks(std::shared_ptr<SelectionJob> job, std::span<const std::uint32_t> items);

  // Opens the object and locates the chunks.
  void open();

  std::vector<Group> groups() const override;
  const ChunkPlace& where(std::size_t chunk) const override { return chunks_[chunk].place; }
  const std::shared_ptr<Object>& object_with(std::size_t chunk) const override {
    return objects_[chunks_[chunk].object];
  }
  const ArrayMetadata& metadata_of(std::size_t) const override { return array().metadata(); }
  std::vector<ByteRange> needed_bytes(std::size_t chunk) const override;
  bool worth_reading_partially(std::size_t chunk) const override;
  StatsBoard& board() const noexcept override { return job_->readers.board(); }
  Task<Job> new_task() noexcept override { return Task<Job>(job_); }
  void check_wanted() const override { job_->check_wanted(); }
  Destination& destination() const noexcept override { return *job_; }
  std::int64_t count_uses(std::size_t chunk) const noexcept override;
  std::span<const std::byte> fill_of(std::size_t chunk) const override;
  void count_decode(StatsBoard::Span time, std::uint64_t encoded, std::uint64_t decoded) noexcept override;
  void count_placed(StatsBoard::Span, std::size_t, std::int64_t, Decode) noexcept override {}
  void fail_chunk(std::size_t chunk, const Error& error) noexcept override;
  void fail_all(const Error& error) noexcept override;

 private:
  struct Part {
    std::uint32_t selection;
    std::int64_t number;  // in it
  };
  struct Chunk {
    std::uint64_t number;  // in the object: chunks of one innermost shard follow one another
    std::uint32_t first_part;
    std::uint32_t part_count;
    std::uint32_t object = 0;  // of objects_
    ChunkPlace place = {};
  };
  const Array& array() const noexcept { return *job_->request.object; }
  const std::string& key() const { return job_->request.items[items_.front()].key; }
  std::span<const Part> parts_of(std::size_t chunk) const {
    return std::span(parts_).subspan(chunks_[chunk].first_part, chunks_[chunk].part_count);
  }
  void list_chunks();
  std::uint64_t number_of(const Dims& chunk) const noexcept;
  Dims coordinates_of(const Chunk& chunk) const;              // in the object
  Error& name_chunk(Error& error, const Chunk& chunk) const;  // by its coordinates in the array
  void locate_chunks();
  Shard outermost_shard();
  ShardIndex index_of_object();
  void visit_uses(std::size_t chunk, From from, const std::function<void(const Use&)>& visit) const override;
  CopyOp op_of(From from) const noexcept;

  std::shared_ptr<SelectionJob> job_;
  std::vector<std::uint32_t> items_;
  std::shared_ptr<Object> object_;
  std::vector<SplitSelection> selections_;  // by item
  std::vector<Part> parts_;
  std::vector<Chunk> chunks_;
  std::vector<std::shared_ptr<Object>> objects_;  // what chunks are read from: the file, or shards decoded from it
};

// The coordinates at the end of a chunk's key; empty if there are none.
[[nodiscard]] std::optional<Dims> coordinates_in_key(const ArrayMetadata& metadata, std::string_view key);

}  // namespace damacy
