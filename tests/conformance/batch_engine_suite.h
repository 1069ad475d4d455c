// What every BatchEngine does. A new implementation joins with
//   struct MyFixture {
//     static MemoryPlan plan(const Config& config);
//     static TestedEngine make(const Config& config, Readers& readers, StatsBoard& board);
//   };
//   INSTANTIATE_TYPED_TEST_SUITE_P(My, BatchEngineSuite, MyFixture);
// The suite plays the pipeline: it has jobs planned for the engine on one thread, lends slots and sees jobs settle.
// Rows are compared with the arrays' elements, which are their places.
#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "damacy/batch/batch_engine.h"
#include "damacy/batch/batch_job.h"
#include "damacy/batch/batch_planner.h"
#include "damacy/batch/config.h"
#include "damacy/batch/memory_plan.h"
#include "damacy/batch/slots.h"
#include "damacy/core/mutex.h"
#include "damacy/core/task.h"
#include "damacy/device/device.h"
#include "damacy/zarr/catalog.h"
#include "support/layouts.h"
#include "support/tiny_zarr.h"

namespace damacy {

struct TestedEngine {
  std::unique_ptr<BatchEngine> engine;  // null: this machine has no device for it
  std::shared_ptr<Device> device = {};  // whose memory batches are in; null: the host's
};

template <class Fixture>
class BatchEngineSuite : public ::testing::Test {
 protected:
  static constexpr std::int64_t kRows = 6, kColumns = 10;  // of a sample
  using Corner = std::pair<std::int64_t, std::int64_t>;    // of a sample in its array, of 40 x 64 elements

  void SetUp() override {
    testing::write_array(root(), {40, 64}, {8, 16});
    config_.batch_size = 4;
    config_.host_buffer_bytes = config_.device_buffer_bytes = 1 << 20;
    config_.n_io_threads = 2;
    config_.dtype = Dtype::f32;
    catalog_ = std::make_shared<Catalog>(Catalog::Limits{});
    auto readers = std::make_unique<Readers>(Fixture::plan(config_).threads, std::make_shared<SteadyClock>());
    TestedEngine made = Fixture::make(config_, *readers, board_);
    if (made.engine == nullptr) GTEST_SKIP() << "NOT TESTED: this machine has no such device";
    engine = made.engine.get();
    device = std::move(made.device);
    planner = std::make_unique<BatchPlanner>(std::move(readers), std::move(made.engine), board_, catalog_,
                                             config_.verify, /*announced_bytes=*/0, /*reads_ahead=*/false);
    make_slots(16);
  }
  void TearDown() override {
    if (planner) planner->stop(nullptr);
    jobs_.clear();
  }

  std::filesystem::path root() const { return dir_.path() / "a.zarr"; }

  void make_slots(std::size_t count) {
    slots_ = std::make_shared<Slots>(count, nullptr, [] {});
    const std::shared_ptr<Alloc> alloc = device ? device->device_memory() : std::make_shared<PageAlloc>();
    slots_->allocate(alloc, static_cast<std::size_t>(config_.batch_size) * kRows * kColumns * sizeof(float));
  }

  // A job of these samples, started and given to the engine.
  std::shared_ptr<BatchJob> produce(const std::vector<Corner>& corners, std::stop_token stop = {}) {
    const auto id = static_cast<std::int64_t>(jobs_.size());
    auto job = std::make_shared<BatchJob>(
        BatchJob::Shape{.id = id,
                        .first_sample = id * config_.batch_size,
                        .layout = testing::layout_of({kRows, kColumns}, config_.dtype, config_.batch_size),
                        .on_error = OnError::raise},
        corners.size());
    std::vector<PlannedSample> rows;
    for (const auto& [row, column] : corners)
      rows.push_back(
          {.parts = {{catalog_->array(root().string()), Box{{row, column}, {row + kRows, column + kColumns}}}}});
    job->set_rows(std::move(rows));
    jobs_.push_back(job);
    job->start({[this](BatchJob& claimer) { return lend(claimer); }, [this](BatchJob& settled) { settle(settled); }},
               engine->rows(), board_);
    const Task task(job);
    if (!engine->runs_ahead()) job->claim();
    planner->produce(task, stop);
    return job;
  }

  void wait_settled(const BatchJob& job) {
    Lock lock(mutex_);
    changed_.wait(lock, [&]() DAMACY_REQUIRES(mutex_) { return settled_.contains(&job); });
  }
  int times_settled(const BatchJob& job) {
    const Lock lock(mutex_);
    return settled_.contains(&job) ? settled_.at(&job) : 0;
  }
  int times_lent(const BatchJob& job) {
    const Lock lock(mutex_);
    return lent_.contains(&job) ? lent_.at(&job) : 0;
  }

  // Memory of a batch as the host sees it, copied after it settled.
  std::vector<float> values_in(std::span<const std::byte> memory) const {
    std::vector<float> values(memory.size() / sizeof(float));
    if (device == nullptr) {
      std::memcpy(values.data(), memory.data(), memory.size());
      return values;
    }
    const HostBuffer back(device->pinned_memory(), memory.size());
    const auto stream = device->make_stream();
    stream->copy(back.bytes(), memory);
    stream->record().wait();
    std::memcpy(values.data(), back.data(), memory.size());
    return values;
  }
  std::vector<float> row_of(const BatchJob& job, std::size_t row) const { return values_in(job.row_memory(row)); }

  static std::vector<float> box_at(const Corner& corner) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < kRows; ++i)
      for (std::int64_t j = 0; j < kColumns; ++j)
        values.push_back(static_cast<float>((corner.first + i) * 64 + corner.second + j));
    return values;
  }
  void expect_good(const std::shared_ptr<BatchJob>& job, const std::vector<Corner>& corners) {
    wait_settled(*job);
    ASSERT_FALSE(job->failure()) << job->failure()->what();
    ASSERT_EQ(job->delivered_rows(), static_cast<std::int64_t>(corners.size()));
    for (std::size_t row = 0; row < corners.size(); ++row) EXPECT_EQ(row_of(*job, row), box_at(corners[row])) << row;
  }

  std::unique_ptr<BatchPlanner> planner;
  BatchEngine* engine = nullptr;  // its own
  std::shared_ptr<Device> device;

 private:
  std::shared_ptr<SlotLoan> lend(BatchJob& job) {
    {
      const Lock lock(mutex_);
      ++lent_[&job];
    }
    auto loan = slots_->lend(job.shape().id);
    if (loan == nullptr) throw Error(Status::shutdown, "the test has no slot left", "closed");
    return loan;
  }
  void settle(BatchJob& job) {
    const Lock lock(mutex_);
    ++settled_[&job];
    changed_.notify_all();
  }

  testing::TempDir dir_{"batch-engine"};
  Config config_;
  StatsBoard board_;
  std::shared_ptr<Catalog> catalog_;
  std::shared_ptr<Slots> slots_;
  std::vector<std::shared_ptr<BatchJob>> jobs_;
  Mutex mutex_;
  Condition changed_;
  std::map<const BatchJob*, int> settled_ DAMACY_GUARDED_BY(mutex_), lent_ DAMACY_GUARDED_BY(mutex_);
};

TYPED_TEST_SUITE_P(BatchEngineSuite);

TYPED_TEST_P(BatchEngineSuite, rows_are_the_boxes_of_their_samples) {
  using Corners = std::vector<typename TestFixture::Corner>;
  std::vector<Corners> wanted;
  std::vector<std::shared_ptr<BatchJob>> jobs;
  for (std::int64_t b = 0; b < 12; ++b) {
    Corners corners;
    for (std::int64_t row = 0; row < 4; ++row) corners.push_back({(b * 7 + row * 5) % 35, (b * 11 + row * 13) % 55});
    wanted.push_back(corners);
    jobs.push_back(this->produce(corners));
  }
  this->engine->flush();
  for (std::size_t b = 0; b < jobs.size(); ++b) {
    this->expect_good(jobs[b], wanted[b]);
    EXPECT_EQ(this->times_settled(*jobs[b]), 1);
    EXPECT_EQ(this->times_lent(*jobs[b]), 1);
  }
}

TYPED_TEST_P(BatchEngineSuite, a_flush_settles_a_job_that_no_other_follows) {
  const auto job = this->produce({{3, 5}});
  this->engine->flush();
  this->expect_good(job, {{3, 5}});
}

TYPED_TEST_P(BatchEngineSuite, a_missing_chunk_is_the_fill_value) {
  std::filesystem::remove(this->root() / "c.0.0");
  const auto job = this->produce({{0, 0}});
  this->engine->flush();
  this->wait_settled(*job);
  ASSERT_FALSE(job->failure());
  EXPECT_EQ(this->row_of(*job, 0), std::vector<float>(TestFixture::kRows * TestFixture::kColumns, 7));
}

TYPED_TEST_P(BatchEngineSuite, a_damaged_chunk_fails_its_job_alone) {
  std::filesystem::resize_file(this->root() / "c.0.0", 10);
  const auto good = this->produce({{20, 20}});
  const auto bad = this->produce({{30, 40}, {1, 1}});
  const auto after = this->produce({{30, 40}});
  this->engine->flush();
  this->wait_settled(*bad);
  ASSERT_TRUE(bad->failure());
  EXPECT_EQ(bad->failure()->where().chunk, (std::vector<std::int64_t>{0, 0}));
  this->expect_good(good, {{20, 20}});
  this->expect_good(after, {{30, 40}});
}

TYPED_TEST_P(BatchEngineSuite, a_slot_is_written_behind_its_consumers) {
  if (this->device == nullptr) GTEST_SKIP() << "nothing is enqueued behind batches that the host has";
  this->make_slots(1);
  const auto consumer = this->device->make_stream();
  const HostBuffer seen(this->device->pinned_memory(), sizeof(float) * TestFixture::kRows * TestFixture::kColumns);
  const auto first = this->produce({{1, 2}});
  this->engine->flush();
  this->expect_good(first, {{1, 2}});
  consumer->copy(seen.bytes(), first->row_memory(0));
  const Event used = consumer->record();
  first->loan()->used_until(used);
  first->take_loan().reset();
  const auto second = this->produce({{21, 33}});
  this->engine->flush();
  this->expect_good(second, {{21, 33}});
  used.wait();
  std::vector<float> values(TestFixture::kRows * TestFixture::kColumns);
  std::memcpy(values.data(), seen.data(), seen.size());
  EXPECT_EQ(values, this->box_at({1, 2}));
}

TYPED_TEST_P(BatchEngineSuite, single_rows_are_filled_and_moved_at_once) {
  const auto job = this->produce({{1, 2}, {11, 12}, {21, 22}});
  this->engine->flush();
  this->expect_good(job, {{1, 2}, {11, 12}, {21, 22}});
  this->engine->rows().move_row(job->row_memory(0), job->row_memory(2));
  this->engine->rows().fill_part(*job, 1);
  EXPECT_EQ(this->row_of(*job, 0), this->box_at({21, 22}));
  EXPECT_EQ(this->row_of(*job, 1), std::vector<float>(TestFixture::kRows * TestFixture::kColumns, 7));
  EXPECT_EQ(this->row_of(*job, 2), this->box_at({21, 22}));
}

TYPED_TEST_P(BatchEngineSuite, a_stopped_job_settles_as_failed) {
  std::stop_source stop;
  stop.request_stop();
  const auto job = this->produce({{1, 2}}, stop.get_token());
  this->engine->flush();
  this->wait_settled(*job);
  ASSERT_TRUE(job->failure());
  EXPECT_EQ(job->failure()->status(), Status::shutdown);
}

TYPED_TEST_P(BatchEngineSuite, a_stop_settles_every_job_once) {
  std::vector<std::shared_ptr<BatchJob>> jobs;
  for (std::int64_t i = 0; i < 12; ++i) jobs.push_back(this->produce({{i, i}, {i + 20, i + 40}}));
  EXPECT_FALSE(this->planner->stop(nullptr));  // no flush before: what was held back settles too
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    EXPECT_EQ(this->times_settled(*jobs[i]), 1) << i;
    if (jobs[i]->failure()) {
      EXPECT_EQ(jobs[i]->failure()->status(), Status::shutdown) << jobs[i]->failure()->what();
    }
  }
  EXPECT_FALSE(this->planner->stop(nullptr));
}

TYPED_TEST_P(BatchEngineSuite, says_how_much_it_does_and_takes) {
  const auto at_once = this->engine->at_once();
  EXPECT_GE(at_once.readers, 1u);
  EXPECT_GE(at_once.decoders, 1u);
  const auto job = this->produce({{1, 2}});
  this->engine->flush();
  this->wait_settled(*job);
  EXPECT_GT(this->engine->host_bytes(), 0u);
  EXPECT_LE(this->engine->host_bytes(), std::size_t{1} << 20);
  EXPECT_LE(this->engine->device_bytes(), std::size_t{1} << 20);
}

REGISTER_TYPED_TEST_SUITE_P(BatchEngineSuite, rows_are_the_boxes_of_their_samples,
                            a_flush_settles_a_job_that_no_other_follows, a_missing_chunk_is_the_fill_value,
                            a_damaged_chunk_fails_its_job_alone, a_slot_is_written_behind_its_consumers,
                            single_rows_are_filled_and_moved_at_once, a_stopped_job_settles_as_failed,
                            a_stop_settles_every_job_once, says_how_much_it_does_and_takes);

}  // namespace damacy
