// What a batch reports about rows that failed more than once.
#include "damacy/batch/batch_job.h"

#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "damacy/core/log.h"
#include "fakes/no_row_writer.h"
#include "support/layouts.h"

namespace damacy {
namespace {

using Chunk = std::vector<std::int64_t>;

Error of_chunk(Chunk chunk) {
  return Error(Status::decode, "damaged", "checksum").at_chunk(std::move(chunk));
}

// A batch of one row.
std::shared_ptr<BatchJob> job_of(OnError on_error) {
  auto job = std::make_shared<BatchJob>(
      BatchJob::Shape{.id = 7, .first_sample = 3, .layout = testing::layout_of({4}, Dtype::u8), .on_error = on_error},
      1);
  job->set_rows({PlannedSample{.parts = {PlannedPart{}}}});
  return job;
}

// The error of a batch of one row, after it failed in these ways, one after another.
Error after(const std::vector<Error>& failures) {
  const auto job = job_of(OnError::raise);
  testing::NoRowWriter writer;
  StatsBoard board;
  job->start({{}, [](BatchJob&) {}}, writer, board);
  Task task(job);
  for (const Error& failure : failures) job->fail(0, failure);
  task.end();
  return *job->failure();
}

TEST(BatchJob, reports_the_first_failed_chunk_of_a_row_in_whatever_order_they_fail) {
  EXPECT_EQ(after({of_chunk({1, 0}), of_chunk({1, 1})}).where().chunk, Chunk({1, 0}));
  EXPECT_EQ(after({of_chunk({1, 1}), of_chunk({1, 0})}).where().chunk, Chunk({1, 0}));
  EXPECT_EQ(after({of_chunk({2, 0}), of_chunk({0, 9}), of_chunk({1, 0})}).where().chunk, Chunk({0, 9}));
}

TEST(BatchJob, reports_errors_with_a_chunk_before_errors_without_one) {
  const Error nowhere(Status::oom, "no memory", "memory");
  EXPECT_EQ(after({nowhere, of_chunk({5})}).status(), Status::decode);
  EXPECT_EQ(after({of_chunk({5}), nowhere}).status(), Status::decode);
  EXPECT_EQ(after({nowhere, nowhere}).status(), Status::oom);
}

// A listener of the log is the user's: it may wait for a thread that waits for the job.
TEST(BatchJob, holds_no_lock_while_it_logs_and_keeps_the_errors_that_it_began_to_settle_with) {
  const auto job = job_of(OnError::skip);
  testing::NoRowWriter writer;
  StatsBoard board;
  job->start({{}, [](BatchJob&) {}}, writer, board);
  Task task(job);
  job->fail(0, of_chunk({2}));
  std::vector<std::string> lines;
  set_log_listener([&](LogLevel, std::string_view line) {
    std::thread([&] { job->fail(0, of_chunk({1})); }).join();
    lines.emplace_back(line);
  });
  task.end();
  set_log_listener({});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("chunk (2,)"), std::string::npos) << lines[0];
  EXPECT_FALSE(job->failure());
  EXPECT_EQ(job->delivered_rows(), 0);
}

}  // namespace
}  // namespace damacy
