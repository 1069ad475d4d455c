// The job of a selection as a destination, and how it fails and is cancelled.
#include "damacy/single/selection_job.h"

#include "conformance/destination_suite.h"
#include "damacy/single/selection_plan.h"
#include "damacy/store/memory_store.h"
#include "support/error_of.h"

namespace damacy {
namespace {

struct SelectionFixture {
  static constexpr bool kCounts = false;
  SelectionFixture() {
    SelectionRequest request;
    request.object = stored_array(
        "array", R"({"zarr_format": 3, "node_type": "array", "data_type": "uint8", "fill_value": 0, "shape": [4],
                     "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
                     "chunk_key_encoding": {"name": "default"}, "codecs": [{"name": "bytes"}]})",
        3);
    request.store = std::make_shared<MemoryStore>();
    request.items.resize(2);
    request.out = std::span(*out).subspan(7, 64);  // not aligned
    job = std::make_shared<SelectionJob>(*readers, std::move(request), [ended = ended] { ++*ended; });
    task = Task(job);
  }
  Destination& to() { return *job; }
  std::int64_t elements_of(std::uint32_t) { return 32; }
  std::optional<Error> end() {
    task.end();
    EXPECT_EQ(*ended, 1);
    return job->failure();
  }
  std::shared_ptr<SelectionReaders> readers = std::make_shared<SelectionReaders>(1, IndexCache());
  std::shared_ptr<std::vector<std::byte>> out = std::make_shared<std::vector<std::byte>>(512);
  std::shared_ptr<int> ended = std::make_shared<int>(0);
  std::shared_ptr<SelectionJob> job;
  Task<SelectionJob> task;
};
INSTANTIATE_TYPED_TEST_SUITE_P(Selection, DestinationSuite, SelectionFixture);

TEST(SelectionJob, its_output_is_where_it_says_in_memory_that_is_aligned) {
  SelectionFixture fixture;
  const std::span<std::byte> memory = fixture.job->memory();
  EXPECT_EQ(memory.data() + fixture.job->out_begin(), fixture.out->data() + 7);
  EXPECT_EQ(memory.data() + memory.size(), fixture.out->data() + 7 + 64);
}

TEST(SelectionJob, the_first_failure_counts_and_ends_what_is_still_wanted) {
  SelectionFixture fixture;
  fixture.job->check_wanted();
  fixture.job->fail(Error(Status::decode, "damaged", "checksum"));
  fixture.job->fail(Error(Status::io, "gone", "io"));
  EXPECT_EQ(error_of([&] { fixture.job->check_wanted(); }).where().reason, "failed");
  EXPECT_EQ(fixture.end()->where().reason, "checksum");
}

TEST(SelectionJob, a_cancelled_one_is_not_wanted) {
  SelectionFixture fixture;
  EXPECT_FALSE(fixture.job->cancelled());
  fixture.job->cancel();
  EXPECT_TRUE(fixture.job->cancelled());
  EXPECT_EQ(error_of([&] { fixture.job->check_wanted(); }).where().reason, "cancelled");
}

}  // namespace
}  // namespace damacy
