#include "damacy/fetch/chunk_reads.h"

#include <optional>
#include <vector>

#include <gtest/gtest.h>

namespace damacy {
namespace {

class NamedObject final : public Object {
 public:
  explicit NamedObject(std::uint64_t version) { stamp_.inode = version; }
  const Stamp& stamp() const noexcept override { return stamp_; }
  void read_exact(std::uint64_t, std::span<std::byte>) override {}

 private:
  Stamp stamp_;
};

// Chunks of one object each, which is a part of another.
struct PartChunk {
  std::uint64_t at = 0, bytes = 0;
  int whole = 0;  // 0: of none
  int array = 0;
  std::uint64_t version = 1;
  Nearness nearness = Nearness::far;
};

class PartChunks final : public LocatedChunks {
 public:
  explicit PartChunks(std::vector<PartChunk> chunks) : chunks_(std::move(chunks)) {
    for (const PartChunk& chunk : chunks_) places_.push_back({0, chunk.bytes});
  }
  std::vector<Group> groups() const override {
    std::vector<Group> groups;
    for (std::uint32_t c = 0; c < chunks_.size(); ++c) groups.push_back({c, 1});
    return groups;
  }
  const ChunkPlace& where(std::size_t chunk) const override { return places_[chunk]; }
  const ArrayMetadata& metadata_of(std::size_t chunk) const override {
    return metadata_[static_cast<std::size_t>(chunks_[chunk].array)];
  }
  std::vector<ByteRange> needed_bytes(std::size_t) const override { return {}; }
  bool worth_reading_partially(std::size_t) const override { return false; }
  Nearness nearness(std::size_t chunk) const override { return chunks_[chunk].nearness; }
  ReadShape read_shape(std::size_t) const override { return {.gap = 10}; }
  std::optional<WholeObject> whole_of(std::size_t chunk) const override {
    const PartChunk& of = chunks_[chunk];
    if (of.whole == 0) return std::nullopt;
    return WholeObject{std::make_shared<NamedObject>(of.version), of.at, &ids_[of.whole]};
  }

 private:
  const std::vector<PartChunk> chunks_;
  std::vector<ChunkPlace> places_;
  const std::vector<ArrayMetadata> metadata_ = std::vector<ArrayMetadata>(2);
  const int ids_[3] = {};
};

using Chunks = std::vector<std::uint32_t>;

std::vector<Chunks> runs_of(const std::vector<PartChunk>& chunks) {
  std::vector<Chunks> runs;
  for (const ChunkRun& run : find_reads(PartChunks(chunks)).runs) runs.push_back(run.chunks);
  return runs;
}

TEST(ChunkReads, parts_of_one_object_that_lie_near_each_other_are_one_read) {
  const ChunkReads reads = find_reads(PartChunks({{200, 50, 1}, {100, 95, 1}, {261, 10, 1}}));
  ASSERT_EQ(reads.runs.size(), 2u);
  const ChunkRun& run = reads.runs[0];
  EXPECT_EQ(run.chunks, (Chunks{1, 0}));
  EXPECT_EQ(run.begins, (std::vector<std::uint64_t>{0, 100}));
  EXPECT_EQ(run.offset, 100u);
  EXPECT_EQ(run.bytes, 150u);
  EXPECT_NE(run.whole, nullptr);
  EXPECT_EQ(reads.runs[1].chunks, (Chunks{2}));  // the gap is 11 bytes
}

TEST(ChunkReads, other_objects_arrays_and_versions_are_read_apart) {
  EXPECT_EQ(runs_of({{0, 10, 1}, {10, 10, 2}}).size(), 2u);
  EXPECT_EQ(runs_of({{0, 10, 1}, {10, 10, 0}}).size(), 2u);
  EXPECT_EQ(runs_of({{0, 10, 1, 0}, {10, 10, 1, 1}}).size(), 2u);
  EXPECT_EQ(runs_of({{0, 10, 1, 0, 1}, {10, 10, 1, 0, 2}}).size(), 2u);
  EXPECT_EQ(runs_of({{0, 10, 1, 0, 1}, {10, 10, 1, 0, 1}}).size(), 1u);
}

TEST(ChunkReads, parts_that_are_near_are_read_by_themselves_and_wanted_ones_are_kept) {
  const ChunkReads reads = find_reads(PartChunks(
      {{0, 10, 1, 0, 1, Nearness::near}, {10, 10, 1, 0, 1, Nearness::far}, {20, 10, 1, 0, 1, Nearness::wanted}}));
  ASSERT_EQ(reads.runs.size(), 2u);
  EXPECT_EQ(reads.runs[0].nearness, Nearness::near);
  EXPECT_EQ(reads.runs[0].whole, nullptr);
  EXPECT_EQ(reads.runs[1].nearness, Nearness::wanted);
  EXPECT_EQ(reads.runs[1].chunks, (Chunks{1, 2}));
}

}  // namespace
}  // namespace damacy
