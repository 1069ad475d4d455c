// Which samples a batch skips when its planning ends it.
#include "damacy/fetch/batch_planner.h"

#include <gtest/gtest.h>

#include "damacy/core/clock.h"
#include "damacy/fetch/readers.h"
#include "support/layouts.h"
#include "support/log_records.h"

namespace damacy {
namespace {

using Chunk = std::vector<std::int64_t>;

Error of_chunk(Chunk chunk) {
  return Error(Status::decode, "damaged", "checksum").at_chunk(std::move(chunk));
}

class NoRowWriter final : public RowWriter {
 public:
  void fill_part(BatchJob&, std::size_t) override { FAIL() << "nothing is filled"; }
  void move_row(std::span<std::byte>, std::span<const std::byte>) override { FAIL() << "nothing is moved"; }
};

PlannedPart of_one_chunk() {
  ArrayMetadata metadata = parse_v3_array(
      R"({"zarr_format": 3, "node_type": "array", "data_type": "uint8", "fill_value": 0, "shape": [4],
          "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
          "chunk_key_encoding": {"name": "default"}, "codecs": [{"name": "bytes"}]})");
  return {
      std::make_shared<const Array>("array", nullptr, "", "", Stamp{}, std::move(metadata), std::vector<std::string>{}),
      Box{{0}, {4}}};
}

// The samples that a batch of one row counts as skipped, and the records that it logs, when its planning ends it.
std::pair<std::int64_t, std::size_t> skipped_and_logged(const std::function<void(const Task<BatchJob>&)>& plan,
                                                        StatsBoard& board) {
  const auto job = std::make_shared<BatchJob>(
      BatchJob::Shape{
          .id = 7, .first_sample = 3, .layout = testing::layout_of({4}, Dtype::u8), .on_error = OnError::skip},
      1);
  job->set_rows({{.parts = {of_one_chunk()}}});
  NoRowWriter writer;
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
  std::shared_ptr<Object> open(std::string_view) override { return nullptr; }
  std::optional<Stamp> stamp(std::string_view) override { return std::nullopt; }
  std::vector<Entry> list(std::string_view) override { return {}; }
  void expect(std::string_view key, const Expectation&) override {
    const bool is_first = keys.empty();
    keys.emplace_back(key);
    if (is_first && during_first) during_first();
  }
  std::vector<std::string> keys;
  std::function<void()> during_first;
};

TEST(Announcer, asks_for_objects_in_their_order_on_one_thread_at_a_time) {
  const auto store = std::make_shared<NotedStore>();
  Announcer announcer;
  const auto objects = [&](const std::vector<const char*>& keys) {
    std::vector<RemoteObject> made;
    for (const char* const key : keys) made.push_back({store, key});
    return made;
  };
  store->during_first = [&] { EXPECT_FALSE(announcer.add(objects({"c", "d"}))); };
  EXPECT_TRUE(announcer.add(objects({"a", "b"})));
  announcer.call(0);
  EXPECT_EQ(store->keys, (std::vector<std::string>{"a", "b", "c", "d"}));
  EXPECT_TRUE(announcer.add(objects({"e"})));
  announcer.time_out(0, of_chunk({}));
  EXPECT_TRUE(announcer.add(objects({"f"})));
  announcer.clear();
  announcer.call(0);
  EXPECT_EQ(store->keys.size(), 4u);
}

TEST(Announcement, counts_its_memory_until_the_batch_needs_no_answer) {
  const auto all = std::make_shared<std::atomic<std::uint64_t>>(0);
  auto announcement = std::make_shared<const Announcement>(std::vector<RemoteObject>(), 70, all);
  Readers readers({.readers = 1, .readers_at_once = 1, .blocking = 1}, std::make_shared<SteadyClock>());
  StatsBoard board;
  std::shared_ptr<ChunkTasks> tasks;
  const auto plan = [&](const Task<BatchJob>& job) {
    tasks = std::make_shared<ChunkTasks>(
        job.job(), BatchPlan{}, ChunkTasks::With{readers, board, nullptr, Verify::needed}, std::move(announcement));
    const Task<ChunkTasks> task(tasks);
    EXPECT_EQ(*all, 70u);
  };
  static_cast<void>(skipped_and_logged(plan, board));
  EXPECT_EQ(*all, 0u);
}

}  // namespace
}  // namespace damacy
