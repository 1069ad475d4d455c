#include "damacy/fetch/chunk_reads.h"

#include <optional>
#include <vector>

#include <gtest/gtest.h>

namespace damacy {
namespace {

// Chunks of one object each, which is a part of another.
struct PartChunk {
  std::uint64_t at = 0, bytes = 0;
  int whole = 0;  // 0: of none
  int array = 0;
  std::uint64_t version = 1;
  Nearness nearness = Nearness::far;
};

class PartObject final : public Object {
 public:
  explicit PartObject(const PartChunk& chunk) : chunk_(chunk) { stamp_.inode = chunk.version; }
  const Stamp& stamp() const noexcept override { return stamp_; }
  void read_exact(std::uint64_t, std::span<std::byte>) override {}
  Nearness nearness(const StoredPiece&) noexcept override { return chunk_.nearness; }
  ReadShape read_shape() const noexcept override { return {.gap = 10}; }
  std::optional<WholeObject> whole() const override {
    static constexpr int kIds[3] = {};
    if (chunk_.whole == 0) return std::nullopt;
    return WholeObject{std::make_shared<PartObject>(chunk_), chunk_.at, &kIds[chunk_.whole]};
  }

 private:
  const PartChunk chunk_;
  Stamp stamp_;
};

ChunkReads reads_of(const std::vector<PartChunk>& chunks) {
  const std::vector<ArrayMetadata> arrays(2);
  Wants wants{.objects = {}, .arrays = {&arrays[0], &arrays[1]}, .chunks = {}, .ahead = {}};
  for (const PartChunk& chunk : chunks) {
    const auto object = static_cast<std::uint32_t>(wants.objects.size());
    wants.objects.push_back(std::make_shared<PartObject>(chunk));
    wants.chunks.push_back({{0, chunk.bytes}, static_cast<std::uint32_t>(chunk.array), object});
  }
  return find_reads(wants);
}

using Chunks = std::vector<std::uint32_t>;

std::vector<Chunks> runs_of(const std::vector<PartChunk>& chunks) {
  std::vector<Chunks> runs;
  for (const ChunkRun& run : reads_of(chunks).runs) runs.push_back(run.chunks);
  return runs;
}

TEST(ChunkReads, parts_of_one_object_that_lie_near_each_other_are_one_read) {
  const ChunkReads reads = reads_of({{200, 50, 1}, {100, 95, 1}, {261, 10, 1}});
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
  const ChunkReads reads = reads_of(
      {{0, 10, 1, 0, 1, Nearness::near}, {10, 10, 1, 0, 1, Nearness::far}, {20, 10, 1, 0, 1, Nearness::wanted}});
  ASSERT_EQ(reads.runs.size(), 2u);
  EXPECT_EQ(reads.runs[0].nearness, Nearness::near);
  EXPECT_EQ(reads.runs[0].whole, nullptr);
  EXPECT_EQ(reads.runs[1].nearness, Nearness::wanted);
  EXPECT_EQ(reads.runs[1].chunks, (Chunks{1, 2}));
}

}  // namespace
}  // namespace damacy
