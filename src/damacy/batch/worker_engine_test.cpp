// Whom a read of the worker engine serves, and the order in which it reads for several batches.
#include "damacy/batch/worker_engine.h"

#include <latch>

#include "damacy/batch/memory_plan.h"
#include "damacy/core/mutex.h"
#include "support/planned_batches.h"

namespace damacy {
namespace {

// Holds the only reader until opened.
class Gate final : public Request {
 public:
  explicit Gate(std::latch& open) : open_(open) {}
  Part prepare(std::size_t, std::stop_token) override { return {}; }
  void complete(std::size_t, const Part&, const Error*) noexcept override { open_.wait(); }

 private:
  std::latch& open_;
};

// Holds the only reader until the engine stops. Another one takes the place of each until the reader has noticed.
class UntilStopped final : public Request {
 public:
  explicit UntilStopped(Readers& readers) : readers_(readers) {}
  Part prepare(std::size_t, std::stop_token stop) override {
    Mutex mutex;
    StoppableCondition never;
    Lock lock(mutex);
    (void)never.wait(lock, std::move(stop), [] { return false; });
    return {};
  }
  void complete(std::size_t, const Part&, const Error* failure) override {
    if (failure == nullptr) readers_.submit_urgent(std::make_unique<UntilStopped>(readers_));
  }

 private:
  Readers& readers_;
};

class WorkerEngineTest : public testing::PlannedBatches {
 protected:
  static constexpr std::int64_t kRows = 512, kColumns = 512;  // of a chunk: 512 KiB, so parts of it may be read

  void SetUp() override {
    PlannedBatches::SetUp();
    write({kRows, 2 * kColumns}, {kRows, kColumns}, kRows * kColumns);
    make_engine({});
  }
  void TearDown() override {
    open_reader();
    PlannedBatches::TearDown();
    engine.reset();
  }
  void make_engine(const Config& config) {
    Config of = config;
    of.batch_size = 1;
    of.host_buffer_bytes = of.device_buffer_bytes = 16 << 20;
    Machine machine;
    machine.cores = machine.rank_cores = 1;
    machine.open_files = 256;
    engine = std::make_unique<WorkerEngine>(plan_memory(of, machine), std::make_shared<PageAlloc>(), *readers, board);
  }
  void hold_reader() { readers->submit(std::make_unique<Gate>(open_)); }
  void open_reader() {
    if (!is_open_) open_.count_down();
    is_open_ = true;
  }
  std::shared_ptr<BatchJob> produce(const Box& box) {
    const auto job = start({box});
    plan(job, [&](const std::shared_ptr<ChunkTasks>& tasks) { engine->take(tasks, {}); });
    return job;
  }
  static Box rows(std::int64_t begin, std::int64_t end) { return {{begin, 0}, {end, kColumns}}; }

  std::unique_ptr<WorkerEngine> engine;

 private:
  std::latch open_{1};
  bool is_open_ = false;
};

// The first reads few rows, the second all; the third joins the second, and needs rows that the first does not read.
TEST_F(WorkerEngineTest, a_read_of_parts_does_not_serve_those_who_joined_a_read_of_all) {
  hold_reader();
  const auto little = produce(rows(3, 5));
  const auto all = produce(rows(0, kRows));
  const auto joined = produce(rows(kRows / 2, kRows));
  open_reader();
  ASSERT_TRUE(settles(3));
  for (const auto& job : {little, all, joined}) expect_good(*job);
  EXPECT_EQ(board.read().chunks_decoded, 2);  // by the read of parts, and by that of all
}

TEST_F(WorkerEngineTest, batches_that_want_a_chunk_that_is_not_decoded_yet_share_its_decode) {
  hold_reader();
  std::vector<std::shared_ptr<BatchJob>> jobs;
  for (std::int64_t i = 0; i < 4; ++i) jobs.push_back(produce(rows(i, i + 500)));
  open_reader();
  ASSERT_TRUE(settles(4));
  for (const auto& job : jobs) expect_good(*job);
  EXPECT_EQ(board.read().chunks_decoded, 1);
  EXPECT_EQ(board.read().reads_issued, 1);
}

TEST_F(WorkerEngineTest, who_comes_after_a_read_was_claimed_reads_again) {
  const auto first = produce(rows(0, kRows));
  ASSERT_TRUE(settles(1));
  const auto second = produce(rows(0, kRows));
  ASSERT_TRUE(settles(2));
  expect_good(*first);
  expect_good(*second);
  EXPECT_EQ(board.read().chunks_decoded, 2);
}

TEST_F(WorkerEngineTest, a_failed_read_fails_those_who_joined_it_and_not_a_read_of_parts) {
  hold_reader();
  const auto other = produce({{0, kColumns}, {2, kColumns + 10}});
  const auto all = produce(rows(0, kRows));
  const auto joined = produce(rows(100, kRows));
  std::filesystem::resize_file(root() / "c.0.0", 1000);
  open_reader();
  ASSERT_TRUE(settles(3));
  expect_good(*other);
  ASSERT_TRUE(all->failure() && joined->failure());
  EXPECT_EQ(joined->failure()->where().chunk, (std::vector<std::int64_t>{0, 0}));
}

TEST_F(WorkerEngineTest, reads_are_made_in_the_order_of_batches) {
  hold_reader();
  std::vector<std::shared_ptr<BatchJob>> jobs;
  for (std::int64_t i = 0; i < 4; ++i)
    jobs.push_back(produce({{4 * i, (i % 2) * kColumns}, {4 * i + 2, (i % 2) * kColumns + 9}}));
  open_reader();
  ASSERT_TRUE(settles(4));
  // Not the order in which they settle: that waits for threads that opened their shards.
  std::vector<std::pair<std::string, std::uint64_t>> in_order{{"zarr.json", 0}};
  for (std::uint64_t i = 0; i < 4; ++i)
    in_order.emplace_back(i % 2 == 0 ? "c.0.0" : "c.0.1", 4 * i * kColumns * sizeof(std::uint16_t));
  EXPECT_EQ(store->reads(), in_order);
  for (const auto& job : jobs) expect_good(*job);
}

// The second batch is planned while the first is read; its location does not come.
TEST_F(WorkerEngineTest, a_batch_does_not_wait_for_the_location_of_a_later_one) {
  const auto first = start({rows(0, 10)});
  plan(first, [&](const std::shared_ptr<ChunkTasks>& tasks) { engine->take(tasks, {}); });
  ASSERT_TRUE(settles(1));
  store->hang(testing::HungStore::Call::open, "c.0.1", 1);
  const auto second = start({{{0, kColumns}, {10, kColumns + 10}}});
  std::thread planner(
      [&] { plan(second, [&](const std::shared_ptr<ChunkTasks>& tasks) { engine->take(tasks, {}); }); });
  store->wait_until_hung();
  expect_good(*first);
  EXPECT_EQ(settled(), std::vector<std::int64_t>{0});
  store->let_go();
  planner.join();
  ASSERT_TRUE(settles(2));
  expect_good(*second);
}

TEST_F(WorkerEngineTest, chunks_that_are_kept_are_placed_without_a_read_and_damaged_ones_are_not_kept) {
  Config config;
  config.cache_bytes = 8 << 20;
  make_engine(config);
  produce(rows(0, kRows));
  ASSERT_TRUE(settles(1));
  const auto reads = board.read().reads_issued;
  const auto again = produce(rows(1, kRows));
  ASSERT_TRUE(settles(2));
  expect_good(*again);
  EXPECT_EQ(board.read().reads_issued, reads);
  EXPECT_EQ(engine->cache()->counts().kept.chunks, 1);

  std::filesystem::resize_file(root() / "c.0.1", 1000);
  const auto damaged = produce({{0, kColumns}, {kRows, 2 * kColumns}});
  ASSERT_TRUE(settles(3));
  EXPECT_TRUE(damaged->failure());
  EXPECT_EQ(engine->cache()->counts().kept.chunks, 1);
}

TEST_F(WorkerEngineTest, a_stop_settles_those_who_joined_as_failed) {
  readers->submit(std::make_unique<UntilStopped>(*readers));
  const auto all = produce(rows(0, kRows));
  const auto joined = produce(rows(0, 500));
  readers->stop(nullptr);
  ASSERT_TRUE(settles(2));
  for (const auto& job : {all, joined}) {
    ASSERT_TRUE(job->failure());
    EXPECT_EQ(job->failure()->status(), Status::shutdown);
  }
}

class DecodedAheadOfEngine : public WorkerEngineTest {
 protected:
  void SetUp() override {
    WorkerEngineTest::SetUp();
    testing::compress_chunks(root());
    open();
  }
  void open() const {
    catalog->array(root().string());
    store->remote = store->immutable = true;
  }
  struct Announced {
    std::shared_ptr<BatchJob> job;
    std::shared_ptr<Announcement> announcement;
  };
  Announced announce(const Box& box) {
    const auto announcement =
        std::make_shared<Announcement>(std::vector<RemoteObject>(), std::make_shared<AnswersAhead>(1 << 20));
    auto job = start({box});
    announcement->want_decoded(engine->decoded_ahead(), places_decoded(plan_batch(job->parts())));
    return {std::move(job), announcement};
  }
  void produce(Announced announced) {
    plan(
        announced.job, [&](const std::shared_ptr<ChunkTasks>& tasks) { engine->take(tasks, {}); }, Verify::needed,
        std::move(announced.announcement));
  }
  // Two announced batches want the same.
  void expect_none_kept(const Box& box) {
    const auto first = announce(box), second = announce(box);
    produce(first);
    ASSERT_TRUE(settles(1));
    EXPECT_EQ(engine->decoded_ahead()->counts().kept.chunks, 0);
    produce(second);
    ASSERT_TRUE(settles(2));
    for (const Announced& batch : {first, second}) expect_good(*batch.job);
    EXPECT_EQ(board.read().chunks_decoded, 2);
  }
};

TEST_F(DecodedAheadOfEngine, a_chunk_is_decoded_once_for_all_announced_batches) {
  std::vector<Announced> batches;
  for (std::int64_t i = 0; i < 3; ++i) batches.push_back(announce(rows(i, i + 500)));
  for (std::size_t i = 0; i < batches.size(); ++i) {
    produce(batches[i]);
    ASSERT_TRUE(settles(i + 1));
    expect_good(*batches[i].job);
    batches[i].announcement.reset();
    EXPECT_EQ(board.read().chunks_decoded, 1);
    EXPECT_EQ(engine->decoded_ahead()->counts().evicted.chunks, i < 2 ? 0 : 1);
  }
  EXPECT_EQ(board.read().chunks_deduplicated, 2);
  const auto later = announce(rows(0, kRows));
  produce(later);
  ASSERT_TRUE(settles(4));
  expect_good(*later.job);
  EXPECT_EQ(board.read().chunks_decoded, 2);
}

// Otherwise each chunk would be decoded as a whole, and into memory that is not in a processor's cache.
TEST_F(DecodedAheadOfEngine, what_only_the_batch_itself_wants_is_not_kept) {
  const auto only = announce(rows(0, kRows));
  const auto other = announce({{0, kColumns}, {kRows, 2 * kColumns}});
  produce(only);
  ASSERT_TRUE(settles(1));
  expect_good(*only.job);
  EXPECT_EQ(engine->decoded_ahead()->counts().kept.chunks, 0);
}

TEST_F(DecodedAheadOfEngine, a_batch_that_is_not_produced_wants_nothing) {
  const auto first = announce(rows(0, 500));
  auto second = announce(rows(0, 500));
  produce(first);
  ASSERT_TRUE(settles(1));
  EXPECT_EQ(engine->decoded_ahead()->counts().kept.chunks, 1);
  second.job->fail_all(Error(Status::shutdown, "closed", "closed"));
  second.announcement.reset();
  EXPECT_EQ(engine->decoded_ahead()->counts().evicted.chunks, 1);
}

TEST_F(DecodedAheadOfEngine, chunks_of_files_are_not_kept) {
  store->remote = false;
  expect_none_kept(rows(0, kRows));
  EXPECT_EQ(engine->decoded_ahead()->peak(), 0u);
}

class DecodedAheadOfRawChunks : public DecodedAheadOfEngine {
  void SetUp() override {
    WorkerEngineTest::SetUp();
    open();
  }
};

TEST_F(DecodedAheadOfRawChunks, keeps_none) {
  expect_none_kept(rows(0, kRows));
}

class DecodedAheadOfSmallChunks : public DecodedAheadOfEngine {
 protected:
  static constexpr std::int64_t kSmall = 180;  // 64,800 bytes a chunk

  void SetUp() override {
    PlannedBatches::SetUp();
    write({kSmall, 2 * kSmall}, {kSmall, kSmall}, kSmall * kSmall);
    testing::compress_chunks(root());
    make_engine({});
    open();
  }
};

TEST_F(DecodedAheadOfSmallChunks, keeps_none) {
  expect_none_kept({{0, 0}, {kSmall, kSmall}});
}

TEST_F(DecodedAheadOfEngine, chunks_without_a_version_are_not_kept) {
  store->immutable = false;
  expect_none_kept(rows(0, kRows));
}

TEST_F(DecodedAheadOfEngine, a_damaged_chunk_fails_every_batch_that_wants_it) {
  std::filesystem::resize_file(root() / "c.0.0", 1000);
  const auto first = announce(rows(0, 500)), second = announce(rows(1, 501));
  produce(first);
  produce(second);
  ASSERT_TRUE(settles(2));
  for (const auto& batch : {first, second}) {
    ASSERT_TRUE(batch.job->failure());
    EXPECT_EQ(batch.job->failure()->where().chunk, (std::vector<std::int64_t>{0, 0}));
  }
  EXPECT_EQ(engine->decoded_ahead()->counts().kept.chunks, 0);
}

}  // namespace
}  // namespace damacy
