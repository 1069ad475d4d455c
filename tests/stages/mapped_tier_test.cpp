// A tier that no file of the library knows. It joins the suite of tiers, and batches find chunks in it.
#include "fakes/mapped_tier.h"

#include "conformance/chunk_tier_suite.h"
#include "damacy/fetch/host_sink.h"
#include "fakes/temp_dir.h"
#include "support/planned_batches.h"

namespace damacy {

struct MappedFile {
  static std::shared_ptr<ChunkTier> make() {
    const TempDir directory;
    return std::make_shared<MappedTier>(directory.path("chunks"), 32, 32 << 10);
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(MappedFile, ChunkTierSuite, MappedFile);

namespace {

class MappedTierTest : public testing::PlannedBatches {
 protected:
  // As the worker engine takes a batch.
  std::shared_ptr<BatchJob> produce(const Box& box) {
    const auto job = start({box});
    plan(job, [&](const std::shared_ptr<ChunkTasks>& tasks) {
      const DecodeMemory memory{staging_, scratch_, readers->contexts()};
      const auto sink = std::make_shared<HostSink>(tasks, memory, HostTiers{tier.get()});
      const ChunkReads reads = find_reads(tasks->wants(), [&](std::uint32_t chunk) {
        const auto hold = sink->decoded().find(chunk);
        if (!hold) return false;
        const HostSink::Decoded kept{chunk, hold->bytes()};
        sink->place_cached({&kept, 1});
        return true;
      });
      for (const ChunkRun& run : reads.runs) readers->submit(std::make_unique<ChunkRunRead>(sink, run));
    });
    return job;
  }

  const std::shared_ptr<ChunkTier> tier = MappedFile::make();

 private:
  Arena staging_{std::make_shared<PageAlloc>(), 1 << 20};
  Arena scratch_{std::make_shared<PageAlloc>(), 1 << 20};
};

TEST_F(MappedTierTest, a_later_batch_reads_and_decodes_nothing_that_the_tier_keeps) {
  write({64, 64}, {16, 32}, 64 * 64);  // eight chunks of 1 KiB
  const auto first = produce({{0, 0}, {64, 64}});
  ASSERT_TRUE(settles(1));
  EXPECT_EQ(tier->counts().kept, (ChunkTier::Count{8, 8 * 1024}));
  EXPECT_EQ(board.read().chunks_decoded, 8);
  const auto reads = store->reads();
  const auto second = produce({{10, 20}, {50, 40}});
  ASSERT_TRUE(settles(2));
  EXPECT_EQ(store->reads(), reads);
  EXPECT_EQ(board.read().chunks_decoded, 8);
  EXPECT_EQ(tier->counts().hits, (ChunkTier::Count{8, 8 * 1024}));
  for (const auto& job : {first, second}) expect_good(*job);
}

}  // namespace
}  // namespace damacy
