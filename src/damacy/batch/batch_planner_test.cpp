// Which samples a batch skips when its planning ends it, and what is asked for before a batch is planned.
#include "damacy/batch/batch_planner.h"

#include <gtest/gtest.h>

#include "damacy/batch/worker_engine.h"
#include "damacy/core/clock.h"
#include "damacy/fetch/readers.h"
#include "fakes/no_row_writer.h"
#include "support/eventually.h"
#include "support/layouts.h"
#include "support/log_records.h"

namespace damacy {
namespace {

using Chunk = std::vector<std::int64_t>;

Error of_chunk(Chunk chunk) {
  return Error(Status::decode, "damaged", "checksum").at_chunk(std::move(chunk));
}

PlannedPart of_one_chunk(std::int64_t chunk = 0, std::shared_ptr<Store> store = nullptr) {
  ArrayMetadata metadata = parse_v3_array(
      R"({"zarr_format": 3, "node_type": "array", "data_type": "uint8", "fill_value": 0, "shape": [48],
          "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
          "chunk_key_encoding": {"name": "default"}, "codecs": [{"name": "bytes"}]})");
  return {std::make_shared<const Array>("array", std::move(store), "", "", Stamp{}, std::move(metadata),
                                        std::vector<std::string>{}),
          Box{{4 * chunk}, {4 * chunk + 4}}};
}

// The samples that a batch of one row counts as skipped, and the records that it logs, when its planning ends it.
std::pair<std::int64_t, std::size_t> skipped_and_logged(const std::function<void(const Task<BatchJob>&)>& plan,
                                                        StatsBoard& board) {
  const auto job = std::make_shared<BatchJob>(
      BatchJob::Shape{
          .id = 7, .first_sample = 3, .layout = testing::layout_of({4}, Dtype::u8), .on_error = OnError::skip},
      1);
  job->set_rows({{.parts = {of_one_chunk()}}});
  testing::NoRowWriter writer;
  job->start({{}, [](BatchJob&) {}}, writer, board);
  testing::LogRecords records;
  plan(Task(job));
  return {board.read().samples_skipped, records.all().size()};
}

TEST(SkippedBatch, that_a_close_ends_before_it_is_planned_skips_nothing) {
  Readers readers({.readers = 1, .readers_at_once = 1, .blocking = 1}, std::make_shared<SteadyClock>());
  StatsBoard board;
  std::stop_source closed;
  closed.request_stop();
  const auto plan = [&](const Task<BatchJob>& job) {
    plan_portions(job, {readers, board, nullptr, Verify::needed}, nullptr, closed.get_token(),
                  [](const auto&) { FAIL(); });
  };
  EXPECT_EQ(skipped_and_logged(plan, board), std::pair(std::int64_t{0}, std::size_t{0}));
}

TEST(SkippedBatch, that_reads_badly_skips_its_sample) {
  StatsBoard board;
  const auto plan = [&](const Task<BatchJob>& job) { job->fail(0, of_chunk({1})); };
  // Records are limited by the second: it may log none.
  EXPECT_EQ(skipped_and_logged(plan, board).first, 1);
}

// Notes what it is asked for, and lets a thread wait in its first answer.
class NotedStore final : public Store {
 public:
  std::string name() const override { return "noted"; }
  bool is_remote() const noexcept override { return true; }
  std::shared_ptr<Object> open(std::string_view) override {
    if (during_open) during_open();
    return nullptr;
  }
  std::optional<Stamp> stamp(std::string_view) override { return std::nullopt; }
  std::vector<Entry> list(std::string_view) override { return {}; }
  void expect(std::string_view key, const Expectation& read) override {
    const bool is_first = keys.empty();
    keys.emplace_back(key);
    if (read.again) ++asked_again;
    ++asked;
    if (is_first && during_first) during_first();
  }
  void unexpect(std::string_view key) noexcept override {
    const Lock lock(mutex);
    unexpected.emplace_back(key);
  }
  std::vector<std::string> keys;
  Mutex mutex;
  std::vector<std::string> unexpected DAMACY_GUARDED_BY(mutex);
  std::atomic<std::size_t> asked{0}, asked_again{0};  // `again`: also if they are known
  std::function<void()> during_first, during_open;
};

std::vector<RemoteObject> chunks_of(const std::shared_ptr<Store>& store, std::initializer_list<const char*> keys) {
  std::vector<RemoteObject> objects;
  for (const char* const key : keys) objects.push_back({store, key, /*bytes=*/64 << 10, false, /*reads=*/1});
  return objects;
}

TEST(Announcer, asks_for_objects_in_their_order_on_one_thread_at_a_time) {
  const auto store = std::make_shared<NotedStore>();
  Announcer announcer;
  const auto ahead = std::make_shared<AnswersAhead>(1 << 20);
  std::vector<std::shared_ptr<Announcement>> announced;
  const auto of = [&](std::initializer_list<const char*> keys) {
    return announced.emplace_back(std::make_shared<Announcement>(chunks_of(store, keys), ahead));
  };
  store->during_first = [&] { EXPECT_FALSE(announcer.add(of({"c", "d"}))); };
  EXPECT_TRUE(announcer.add(of({"a", "b"})));
  announcer.call(0);
  EXPECT_EQ(store->keys, (std::vector<std::string>{"a", "b", "c", "d"}));
  EXPECT_TRUE(announcer.add(of({"e"})));
  announcer.time_out(0, of_chunk({}));
  EXPECT_TRUE(announcer.add(of({"f"})));
  announcer.clear();
  announcer.call(0);
  EXPECT_EQ(store->keys.size(), 4u);
}

TEST(Announcer, asks_for_objects_together_with_what_plans_their_batch_and_not_of_one_that_is_dropped) {
  const auto store = std::make_shared<NotedStore>();
  const auto ahead = std::make_shared<AnswersAhead>(1 << 20);
  Announcer announcer;
  auto planned = std::make_shared<Announcement>(chunks_of(store, {"a", "b"}), ahead);
  auto dropped = std::make_shared<Announcement>(chunks_of(store, {"c"}), ahead);
  const auto last = std::make_shared<Announcement>(chunks_of(store, {"d"}), ahead);
  std::atomic<bool> is_asked{false};
  std::jthread planner;
  store->during_first = [&] {
    planner = std::jthread([&] {
      while (planned->has_more()) planned->ask_next();
      EXPECT_TRUE(is_asked) << "one object is asked for at a time";
    });
    dropped.reset();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(store->asked, 1u);
    is_asked = true;
  };
  EXPECT_TRUE(announcer.add(planned));
  EXPECT_FALSE(announcer.add(dropped));
  EXPECT_FALSE(announcer.add(last));
  announcer.call(0);
  planner.join();
  EXPECT_EQ(store->keys, (std::vector<std::string>{"a", "b", "d"}));
}

TEST(Announcement, has_more_while_its_last_object_is_asked_for) {
  const auto store = std::make_shared<NotedStore>();
  Announcement announcement(chunks_of(store, {"a"}), std::make_shared<AnswersAhead>(1 << 20));
  store->during_first = [&] { EXPECT_TRUE(announcement.has_more()); };
  announcement.ask_next();
  EXPECT_EQ(store->asked, 1u);
  EXPECT_FALSE(announcement.has_more());
}

TEST(Announcement, ends_the_reads_that_were_announced) {
  const auto store = std::make_shared<NotedStore>();
  {
    Announcement announcement(chunks_of(store, {"a", "b"}), std::make_shared<AnswersAhead>(1 << 20));
    announcement.ask_next();
    EXPECT_TRUE(announcement.has_more());
  }
  const Lock lock(store->mutex);
  EXPECT_EQ(store->unexpected, std::vector<std::string>{"a"});
}

class NoCall final : public AwaitedCalls {
 public:
  void call(std::size_t) override { finish(); }
  void time_out(std::size_t, const Error&) noexcept override {}
};

// Batches of four rows, each of a chunk of its own.
class BatchPlannerTest : public ::testing::Test {
 protected:
  static std::shared_ptr<BatchJob> batch_of(std::int64_t first_chunk, const std::shared_ptr<Store>& store) {
    auto job = std::make_shared<BatchJob>(
        BatchJob::Shape{
            .id = 0, .first_sample = 0, .layout = testing::layout_of({4}, Dtype::u8, 4), .on_error = OnError::raise},
        4);
    std::vector<PlannedSample> rows;
    for (std::int64_t row = 0; row < 4; ++row) rows.push_back({.parts = {of_one_chunk(first_chunk + row, store)}});
    job->set_rows(std::move(rows));
    return job;
  }
  std::unique_ptr<BatchPlanner> planner_with(std::size_t answer_bytes, bool reads_ahead = false) {
    Config config;
    config.host_buffer_bytes = config.device_buffer_bytes = 1 << 20;
    const MemoryPlan plan = plan_memory(config, Machine{});
    auto readers = std::make_unique<Readers>(ThreadCounts{.readers = 1, .readers_at_once = 1, .blocking = 1},
                                             std::make_shared<SteadyClock>());
    auto engine = std::make_unique<WorkerEngine>(plan, std::make_shared<PageAlloc>(), *readers, board);
    return std::make_unique<BatchPlanner>(std::move(readers), std::move(engine), board,
                                          std::make_shared<Catalog>(plan.catalog), Verify::needed, answer_bytes,
                                          reads_ahead);
  }

  const std::shared_ptr<NotedStore> store = std::make_shared<NotedStore>();
  StatsBoard board;
};

TEST_F(BatchPlannerTest, announces_what_the_memory_of_answers_holds) {
  constexpr std::size_t kObject = 64 << 10, kObjects = 10;  // half of the memory is for documents
  const auto first = batch_of(0, store), second = batch_of(4, store), third = batch_of(8, store);
  const auto planner = planner_with(2 * kObjects * kObject);
  planner->announce(*first);
  EXPECT_TRUE(planner->can_announce());
  planner->announce(*second);
  EXPECT_FALSE(planner->can_announce());  // a quarter is not left
  planner->announce(*third);              // a part of it
  EXPECT_TRUE(testing::eventually([&] { return store->asked >= kObjects; }));
  const auto last = std::make_shared<NoCall>();
  planner->readers().run_in_background(last);  // on the thread that asks
  EXPECT_TRUE(last->wait({}));
  EXPECT_EQ(store->keys.size(), kObjects);
  EXPECT_EQ(store->keys.back(), "c/9");
  planner->fail(*second, of_chunk({4}));
  EXPECT_TRUE(planner->can_announce());
}

// Else some cache may have their chunks.
TEST_F(BatchPlannerTest, asks_for_objects_that_are_known_where_it_reads_ahead) {
  for (const bool reads_ahead : {false, true}) {
    const auto batch = batch_of(0, store);
    const auto planner = planner_with(1 << 20, reads_ahead);
    const std::size_t before = store->asked;
    planner->announce(*batch);
    EXPECT_TRUE(testing::eventually([&] { return store->asked == before + 4; }));
    EXPECT_EQ(store->asked_again, reads_ahead ? 4u : 0u);
  }
}

// Its objects are not answered before others are asked for.
TEST_F(BatchPlannerTest, announces_later_batches_while_it_waits_for_the_objects_of_one) {
  const auto other = std::make_shared<NotedStore>();
  const auto first = batch_of(0, store), second = batch_of(4, other);
  const auto planner = planner_with(1 << 20);
  int calls = 0;
  planner->set_while_waiting([&] {
    if (calls++ == 0) planner->announce(*second);
  });
  store->during_open = [&] {
    EXPECT_TRUE(testing::eventually([&] { return other->asked == 4; }));
    throw Error(Status::io, "refused", "denied");
  };
  testing::NoRowWriter writer;
  first->start({{}, [](BatchJob&) {}}, writer, board);
  planner->produce(Task(first), {});
  EXPECT_GT(calls, 0);
}

TEST_F(BatchPlannerTest, asks_itself_for_the_rest_of_a_batch_that_is_planned_before_all_are_announced) {
  const auto batch = batch_of(0, store);
  const auto planner = planner_with(1 << 20, /*reads_ahead=*/true);
  store->during_first = [] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); };  // it is planned meanwhile
  store->during_open = [] { throw Error(Status::io, "refused", "denied"); };
  planner->announce(*batch);
  EXPECT_TRUE(testing::eventually([&] { return store->asked == 1; }));
  testing::NoRowWriter writer;
  batch->start({{}, [](BatchJob&) {}}, writer, board);
  planner->produce(Task(batch), {});
  EXPECT_EQ(store->asked_again, 4u);
  EXPECT_TRUE(testing::eventually([&] {
    const Lock lock(store->mutex);
    return store->unexpected.size() == 4;
  }));
}

std::vector<std::string> keys_of(const Announcement& announcement) {
  std::vector<std::string> keys;
  for (const RemoteObject& object : announcement.objects()) keys.push_back(object.key);
  return keys;
}

TEST(Announcement, counts_the_memory_of_an_answer_once_until_no_batch_wants_it) {
  constexpr std::uint64_t kObject = 64 << 10;
  const auto store = std::make_shared<NotedStore>(), other = std::make_shared<NotedStore>();
  const auto ahead = std::make_shared<AnswersAhead>(3 * kObject);
  auto first = std::make_unique<Announcement>(chunks_of(store, {"a", "b"}), ahead);
  auto second = std::make_unique<Announcement>(chunks_of(store, {"b", "a", "c", "d", "a"}), ahead);
  EXPECT_EQ(keys_of(*first), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(keys_of(*second), (std::vector<std::string>{"b", "a", "c"}));  // "d" has no room, so nothing behind it
  EXPECT_EQ(ahead->bytes(), 3 * kObject);
  first.reset();
  EXPECT_EQ(ahead->bytes(), 3 * kObject);
  second.reset();
  EXPECT_EQ(ahead->bytes(), 0u);
  const Announcement third(chunks_of(store, {"a"}), ahead);
  const Announcement fourth(chunks_of(other, {"a"}), ahead);  // another object
  EXPECT_EQ(ahead->bytes(), 2 * kObject);
}

TEST(Announcement, counts_its_memory_until_the_batch_needs_no_answer) {
  const auto ahead = std::make_shared<AnswersAhead>(1 << 20);
  auto announcement = std::make_shared<Announcement>(chunks_of(std::make_shared<NotedStore>(), {"a"}), ahead);
  Readers readers({.readers = 1, .readers_at_once = 1, .blocking = 1}, std::make_shared<SteadyClock>());
  StatsBoard board;
  std::shared_ptr<ChunkTasks> tasks;
  const auto plan = [&](const Task<BatchJob>& job) {
    tasks = std::make_shared<ChunkTasks>(
        job.job(), BatchPlan{}, ChunkTasks::With{readers, board, nullptr, Verify::needed}, std::move(announcement));
    const Task<ChunkTasks> task(tasks);
    EXPECT_EQ(ahead->bytes(), 64u << 10);
  };
  static_cast<void>(skipped_and_logged(plan, board));
  EXPECT_EQ(ahead->bytes(), 0u);
}

}  // namespace
}  // namespace damacy
