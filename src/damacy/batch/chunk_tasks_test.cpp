// The chunks of a planned batch: where they are, what is needed of them, whom a failure reaches, and what is counted.
#include "damacy/batch/chunk_tasks.h"

#include "conformance/destination_suite.h"
#include "conformance/wanted_chunks_suite.h"
#include "damacy/fetch/chunk_reads.h"
#include "damacy/fetch/host_sink.h"
#include "fakes/fake_chunks.h"
#include "support/error_of.h"
#include "support/planned_batches.h"

namespace damacy {
namespace {

class ChunkTasksTest : public testing::PlannedBatches {
 public:
  using PlannedBatches::settled;
  using PlannedBatches::settles;
  using PlannedBatches::start;
  void SetUp() override {
    PlannedBatches::SetUp();
    write({8, 12}, {4, 4}, 200);
  }
  void TearDown() override {
    task.end();
    tasks.reset();
    PlannedBatches::TearDown();
  }
  void TestBody() override {}

  // Plans a batch; its chunks stay unsettled until `task` ends.
  void plan_boxes(const std::vector<Box>& boxes, Verify verify = Verify::needed) {
    job = start(boxes);
    plan(
        job,
        [&](const std::shared_ptr<ChunkTasks>& planned) {
          tasks = planned;
          task = Task(planned);
        },
        verify);
  }
  std::vector<ChunkKey> ids_of(const Box& box) {
    plan_boxes({box});
    std::vector<ChunkKey> ids;
    for (const Want& want : tasks->wants().chunks) ids.push_back(want.id);
    return ids;
  }
  // Reads, decodes and places all chunks, on this thread.
  void read_all() {
    Arena staging(std::make_shared<PageAlloc>(), 1 << 20), scratch(std::make_shared<PageAlloc>(), 1 << 20);
    std::vector<DecodeContext> contexts(1);
    const auto sink = std::make_shared<HostSink>(tasks, DecodeMemory{staging, scratch, contexts});
    const ChunkReads reads = find_reads(tasks->wants());
    for (const ChunkRun& run : reads.runs) {
      ChunkRunRead read(sink, run);
      testing::serve(read);
    }
    for (const std::uint32_t chunk : reads.missing) sink->fill(chunk);
  }
  void end() {
    task.end();
    ASSERT_TRUE(settles(1));
  }

  std::shared_ptr<BatchJob> job;
  std::shared_ptr<ChunkTasks> tasks;
  Task<ChunkTasks> task;
};

struct BatchChunks {
  BatchChunks() { of.SetUp(); }
  ~BatchChunks() { of.TearDown(); }
  std::shared_ptr<WantedChunks> make() {
    of.plan_boxes({{{0, 0}, {5, 7}}, {{1, 3}, {6, 10}}});
    return of.tasks;
  }
  bool has_failed(std::size_t) {
    of.task.end();
    EXPECT_TRUE(of.settles(1));
    return of.job->failure() && of.job->failure()->where().reason == "checksum";
  }
  bool is_settled() { return !of.settled().empty(); }
  ChunkTasksTest of;
};

INSTANTIATE_TYPED_TEST_SUITE_P(ChunkTasks, WantedChunksSuite, BatchChunks);

// The suite's own double has to keep the contract, too.
struct FakeFixture {
  std::shared_ptr<WantedChunks> make() {
    chunks = testing::FakeChunks::make(
        {testing::raw_chunk(100, {{50, 60}, {10, 20}, {15, 30}}), testing::raw_chunk(100, {{0, 100}})});
    return chunks;
  }
  bool has_failed(std::size_t chunk) { return !chunks->failures_of(chunk).empty(); }
  bool is_settled() { return chunks->is_settled(); }
  std::shared_ptr<testing::FakeChunks> chunks;
};
INSTANTIATE_TYPED_TEST_SUITE_P(Fake, WantedChunksSuite, FakeFixture);

struct BatchFixture {
  static constexpr bool kCounts = true;
  BatchFixture() {
    of.SetUp();
    job = of.start({{{0, 0}, {3, 5}}, {{1, 1}, {4, 6}}});
    task = Task(job);
  }
  ~BatchFixture() { of.TearDown(); }
  Destination& to() { return *job; }
  std::int64_t elements_of(std::uint32_t) { return 15; }
  std::optional<Error> end() {
    task.end();
    return job->failure();
  }
  ChunkTasksTest of;
  std::shared_ptr<BatchJob> job;
  Task<BatchJob> task;
};
INSTANTIATE_TYPED_TEST_SUITE_P(Batch, DestinationSuite, BatchFixture);

TEST_F(ChunkTasksTest, chunks_are_those_that_boxes_touch_and_are_where_their_objects_are) {
  plan_boxes({{{0, 0}, {4, 5}}, {{3, 7}, {7, 12}}});
  EXPECT_EQ(tasks->wants().objects.size(), 5u);  // an object for each chunk
  for (std::size_t c = 0; c < 5; ++c) {
    EXPECT_FALSE(tasks->where(c).missing || tasks->where(c).failed);
    EXPECT_EQ(tasks->where(c).bytes, 32u);
  }
}

TEST_F(ChunkTasksTest, an_id_belongs_to_one_chunk_and_one_version_of_its_object) {
  const Box all{{0, 0}, {8, 12}};
  const std::vector<ChunkKey> first = ids_of(all);
  ASSERT_EQ(first.size(), 6u);
  EXPECT_EQ(ids_of(all), first);
  for (std::size_t c = 1; c < first.size(); ++c) EXPECT_EQ(std::ranges::count(first, first[c]), 1) << c;
  std::filesystem::last_write_time(root() / "c.0.1", std::filesystem::file_time_type::clock::now());
  const std::vector<ChunkKey> later = ids_of(all);
  for (std::size_t c = 0; c < later.size(); ++c) EXPECT_EQ(later[c] == first[c], c != 1) << c;
  EXPECT_EQ(ids_of({{4, 8}, {8, 12}}), std::vector{first[5]});
}

TEST_F(ChunkTasksTest, a_chunk_of_a_remote_object_that_has_no_version_is_not_one_that_caches_may_keep) {
  for (const bool is_remote : {false, true}) {
    plan_boxes({{{0, 0}, {4, 5}}});
    for (const Want& want : tasks->wants().chunks) EXPECT_EQ(want.is_versioned, !is_remote);
    store->remote = true;
  }
}

TEST_F(ChunkTasksTest, what_is_read_is_placed_in_every_row_that_wants_it) {
  plan_boxes({{{0, 0}, {5, 7}}, {{1, 3}, {6, 10}}, {{1, 3}, {6, 10}}});
  read_all();
  end();
  expect_good(*job);
  const Stats stats = board.read();
  EXPECT_EQ(stats.chunks_decoded, 6);
  EXPECT_EQ(stats.chunks_decoded_on_host, 6);
  EXPECT_EQ(stats.chunks_deduplicated, 10);  // uses beyond the first of each chunk
  EXPECT_EQ(stats.assemble.count, 1);
}

TEST_F(ChunkTasksTest, an_absent_object_is_missing_and_filled) {
  std::filesystem::remove(root() / "c.0.1");
  plan_boxes({{{0, 4}, {4, 8}}});
  ASSERT_TRUE(tasks->where(0).missing);
  EXPECT_EQ(std::to_integer<int>(tasks->fill_of(0)[0]), 7);
  read_all();
  end();
  ASSERT_FALSE(job->failure());
  const auto* row = reinterpret_cast<const std::uint16_t*>(job->row_memory(0).data());
  EXPECT_TRUE(std::all_of(row, row + 16, [](std::uint16_t value) { return value == 7; }));
}

TEST_F(ChunkTasksTest, an_object_that_does_not_open_fails_its_chunks_alone) {
  std::filesystem::remove(root() / "c.0.1");
  std::filesystem::create_directories(root() / "c.0.1");  // no file
  plan_boxes({{{0, 0}, {4, 4}}, {{0, 4}, {4, 8}}});
  EXPECT_FALSE(tasks->where(0).failed);
  EXPECT_TRUE(tasks->where(1).failed);
  EXPECT_TRUE(find_reads(tasks->wants()).missing.empty());
  read_all();
  end();
  ASSERT_TRUE(job->failure());
  EXPECT_EQ(job->failure()->where().key, "c.0.1");
}

TEST_F(ChunkTasksTest, a_chunk_that_fails_says_which_array_object_chunk_and_bytes) {
  plan_boxes({{{5, 9}, {6, 10}}});
  tasks->fail_chunk(0, Error(Status::decode, "damaged", "checksum"));
  end();
  ASSERT_TRUE(job->failure());
  const auto& where = job->failure()->where();
  EXPECT_EQ(where.key, "c.1.2");
  EXPECT_EQ(where.chunk, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(where.uri, root().string());
  EXPECT_NE(std::string(job->failure()->what()).find("damaged"), std::string::npos);
}

TEST_F(ChunkTasksTest, a_chunk_that_fails_fails_the_parts_that_use_it_and_no_others) {
  plan_boxes({{{0, 0}, {4, 4}}, {{0, 4}, {4, 8}}});
  tasks->fail_chunk(1, Error(Status::decode, "damaged", "checksum"));
  read_all();
  end();
  ASSERT_TRUE(job->failure());  // with on_error=raise it is that of the batch
  EXPECT_EQ(job->failure()->where().chunk, (std::vector<std::int64_t>{0, 1}));
}

TEST_F(ChunkTasksTest, of_packed_chunks_all_is_needed_where_all_is_to_be_verified) {
  const auto needs = [&](Verify verify) {
    plan_boxes({{{1, 1}, {2, 3}}}, verify);
    const auto needed = tasks->needed_bytes(0);
    task.end();
    return needed;
  };
  EXPECT_EQ(needs(Verify::needed), (std::vector<ByteRange>{{10, 14}}));
  EXPECT_EQ(needs(Verify::whole), (std::vector<ByteRange>{{10, 14}}));  // raw: there is nothing to verify
  testing::compress_chunks(root());
  catalog->clear();
  EXPECT_EQ(needs(Verify::needed), (std::vector<ByteRange>{{10, 14}}));
  EXPECT_EQ(needs(Verify::whole), (std::vector<ByteRange>{{0, 32}}));
}

TEST_F(ChunkTasksTest, an_object_that_changes_while_it_is_read_fails_its_rows) {
  plan_boxes({{{0, 0}, {4, 4}}});
  std::filesystem::resize_file(root() / "c.0.0", 40);
  read_all();
  end();
  ASSERT_TRUE(job->failure());
  EXPECT_EQ(job->failure()->where().reason, "changed");
}

TEST_F(ChunkTasksTest, storage_that_does_not_answer_fails_all_of_them) {
  plan_boxes({{{0, 0}, {8, 12}}});
  tasks->abandon(Error(Status::io, "storage does not answer", "deadline"));
  end();
  ASSERT_TRUE(job->failure());
  EXPECT_EQ(job->failure()->where().reason, "deadline");
}

TEST_F(ChunkTasksTest, advice_counts_stored_chunks_and_not_missing_ones) {
  std::filesystem::remove(root() / "c.0.1");
  plan_boxes({{{0, 0}, {8, 12}}});
  tasks->count_wanted(/*parts=*/true);
  EXPECT_EQ(board.chunks_seen().decoded_bytes, 5 * 32);
}

}  // namespace
}  // namespace damacy
