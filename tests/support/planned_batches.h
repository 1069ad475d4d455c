// Batches of boxes of a small array, planned as the planner thread does it, on a store whose calls may hang. Lends
// slots and notes the order in which batches settle. Element value: its position in the array, modulo 65536.
#pragma once

#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "damacy/batch/batch_job.h"
#include "damacy/batch/batch_planner.h"
#include "damacy/batch/slots.h"
#include "damacy/core/mutex.h"
#include "damacy/zarr/catalog.h"
#include "fakes/hung_store.h"
#include "support/eventually.h"
#include "support/layouts.h"
#include "support/tiny_zarr.h"

namespace damacy::testing {

class PlannedBatches : public ::testing::Test {
 protected:
  class NoRowWriter final : public RowWriter {
   public:
    void fill_part(BatchJob&, std::size_t) override { FAIL() << "nothing is filled"; }
    void move_row(std::span<std::byte>, std::span<const std::byte>) override { FAIL() << "nothing is moved"; }
  };

  void SetUp() override {
    catalog = std::make_shared<Catalog>(Catalog::Limits{}, [this](const std::string& path) {
      store = std::make_shared<HungStore>(make_file_store(path, 8));
      return store;
    });
    readers = std::make_unique<Readers>(ThreadCounts{.readers = 1, .readers_at_once = 1, .blocking = 2},
                                        std::make_shared<SteadyClock>());
    slots_ = std::make_shared<Slots>(16, nullptr, [] {});
  }
  void TearDown() override {
    if (store) store->let_go();
    if (readers) readers->stop(nullptr);
    jobs_.clear();
  }

  std::filesystem::path root() const { return dir_.path() / "a.zarr"; }
  // `largest`: elements of a batch.
  void write(const Dims& shape, const Dims& chunk, std::size_t largest) {
    write_array(root(), shape, chunk);
    shape_ = shape;
    slots_->allocate(std::make_shared<PageAlloc>(), largest * sizeof(std::uint16_t));
  }

  // A job of these boxes of one size, with a slot.
  std::shared_ptr<BatchJob> start(const std::vector<Box>& boxes) {
    const auto id = static_cast<std::int64_t>(jobs_.size());
    auto job = std::make_shared<BatchJob>(BatchJob::Shape{.id = id,
                                                          .first_sample = 100 * id,
                                                          .layout = layout_of(boxes.front().extents(), Dtype::u16,
                                                                              static_cast<std::int64_t>(boxes.size())),
                                                          .on_error = OnError::raise},
                                          boxes.size());
    std::vector<PlannedSample> rows;
    for (const Box& box : boxes) rows.push_back({.parts = {{catalog->array(root().string()), box}}});
    job->set_rows(std::move(rows));
    jobs_.push_back(job);
    job->start({[this](BatchJob& claimer) { return slots_->lend(claimer.shape().id); },
                [this](BatchJob& settled) {
                  const Lock lock(mutex_);
                  order_.push_back(settled.shape().id);
                }},
               writer_, board);
    job->claim();
    return job;
  }
  using Each = std::function<void(const std::shared_ptr<ChunkTasks>&)>;
  void plan(const std::shared_ptr<BatchJob>& job, const Each& each, Verify verify = Verify::needed,
            std::shared_ptr<Announcement> announcement = nullptr) {
    const Task task(job);
    plan_portions(task, {*readers, board, catalog, verify}, std::move(announcement), {}, each);
  }

  std::vector<std::int64_t> settled() const {
    const Lock lock(mutex_);
    return order_;
  }
  ::testing::AssertionResult settles(std::size_t jobs) const {
    if (eventually([&] { return settled().size() >= jobs; })) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << settled().size() << " of " << jobs << " batches settled";
  }
  void expect_good(const BatchJob& job) const {
    ASSERT_FALSE(job.failure()) << job.failure()->what();
    for (std::size_t row = 0; row < job.row_count(); ++row) {
      const Box& box = job.parts()[row].box;
      const auto* got = reinterpret_cast<const std::uint16_t*>(job.row_memory(row).data());
      std::size_t wrong = 0;
      for (std::int64_t i = box.start[0]; i < box.stop[0]; ++i)
        for (std::int64_t j = box.start[1]; j < box.stop[1]; ++j)
          wrong += *got++ != static_cast<std::uint16_t>(i * shape_[1] + j);
      EXPECT_EQ(wrong, 0u) << "elements of row " << row << " of batch " << job.shape().id;
    }
  }

  std::shared_ptr<Catalog> catalog;
  std::shared_ptr<HungStore> store;  // of the array
  std::unique_ptr<Readers> readers;
  StatsBoard board;

 private:
  TempDir dir_{"planned-batches"};
  Dims shape_;
  NoRowWriter writer_;
  std::shared_ptr<Slots> slots_;
  std::vector<std::shared_ptr<BatchJob>> jobs_;
  mutable Mutex mutex_;
  std::vector<std::int64_t> order_ DAMACY_GUARDED_BY(mutex_);
};

}  // namespace damacy::testing
