#include "damacy/core/task.h"

#include <array>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace damacy {
namespace {

class CountedJob final : public Job {
 public:
  int settled = 0;

 private:
  void settle() noexcept override { ++settled; }
};

TEST(Task, settles_its_job_when_it_is_the_last_to_end) {
  const auto job = std::make_shared<CountedJob>();
  {
    Task<CountedJob> first(job);
    {
      const Task<CountedJob> second(job);
    }
    EXPECT_EQ(job->settled, 0);
  }
  EXPECT_EQ(job->settled, 1);
}

TEST(Task, ends_once) {
  const auto job = std::make_shared<CountedJob>();
  Task<CountedJob> task(job);
  const Task<CountedJob> other(job);
  task.end();
  task.end();
  EXPECT_FALSE(task);
  EXPECT_EQ(job->settled, 0);
}

TEST(Task, goes_with_a_move) {
  const auto job = std::make_shared<CountedJob>();
  std::optional<Task<CountedJob>> task(job);
  Task<CountedJob> moved(std::move(*task));
  task.reset();
  EXPECT_EQ(job->settled, 0);
  moved = Task<CountedJob>();
  EXPECT_EQ(job->settled, 1);
}

TEST(Task, that_is_assigned_to_ends_what_it_was) {
  const auto one = std::make_shared<CountedJob>();
  const auto other = std::make_shared<CountedJob>();
  Task<CountedJob> task(one);
  task = Task<CountedJob>(other);
  EXPECT_EQ(one->settled, 1);
  EXPECT_EQ(other->settled, 0);
  EXPECT_EQ(task.job(), other);
}

TEST(Task, keeps_its_job_until_it_settled) {
  auto job = std::make_shared<CountedJob>();
  const std::weak_ptr<CountedJob> watch = job;
  Task<CountedJob> task(std::move(job));
  EXPECT_FALSE(watch.expired());
  task.end();
  EXPECT_TRUE(watch.expired());
}

TEST(Task, of_many_threads_settles_once) {
  for (int round = 0; round < 200; ++round) {
    const auto job = std::make_shared<CountedJob>();
    {
      std::vector<Task<CountedJob>> tasks;
      for (int i = 0; i < 4; ++i) tasks.emplace_back(job);
      std::vector<std::jthread> threads;
      for (auto& task : tasks) threads.emplace_back([task = std::move(task)]() mutable { task.end(); });
    }
    EXPECT_EQ(job->settled, 1);
  }
}

}  // namespace
}  // namespace damacy
