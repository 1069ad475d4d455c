// What every Request that brings chunks does between submit() and its end. A new implementation joins with
//   struct MyFixture {
//     static constexpr bool kReads = true;  // it asks storage, and notices what cannot be read
//     static std::vector<testing::FakeChunk> chunks();  // what the request brings
//     static CodecChain codecs();
//     std::unique_ptr<Request> make(const std::shared_ptr<testing::FakeChunks>& chunks);
//     // All that was taken is in the destination, or has failed. Returns the destination's bytes.
//     std::vector<std::byte> finish(testing::FakeChunks& chunks);
//     std::shared_ptr<Alloc> alloc();  // of the destination
//   };
//   INSTANTIATE_TYPED_TEST_SUITE_P(My, RequestSuite, MyFixture);
// The suite plays the engine, on one thread.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "damacy/store/engine.h"
#include "fakes/fake_chunks.h"

namespace damacy {

template <class Fixture>
class RequestSuite : public ::testing::Test {
 protected:
  void SetUp() override {
    wanted = testing::FakeChunks::make(Fixture::chunks(), {.codecs = Fixture::codecs(), .alloc = fixture.alloc()});
    Task<Job> task = wanted->new_task();
    request = fixture.make(wanted);
    task.end();
  }
  std::size_t count() const { return wanted->wants().chunks.size(); }
  // The request ends, and with it the job.
  std::vector<std::byte> end() {
    EXPECT_FALSE(wanted->is_settled());
    request.reset();
    std::vector<std::byte> memory = fixture.finish(*wanted);
    EXPECT_TRUE(wanted->is_settled());
    EXPECT_EQ(wanted->open_reads(), 0);
    return memory;
  }
  void expect_failed(Status status) {
    for (std::size_t c = 0; c < count(); ++c) {
      ASSERT_EQ(wanted->failures_of(c).size(), 1u) << c;
      EXPECT_EQ(wanted->failures_of(c)[0].status(), status);
      EXPECT_TRUE(wanted->is_untouched(c));
    }
  }

  Fixture fixture;
  std::shared_ptr<testing::FakeChunks> wanted;
  std::unique_ptr<Request> request;
};

TYPED_TEST_SUITE_P(RequestSuite);

TYPED_TEST_P(RequestSuite, brings_all_of_its_chunks_and_ends_its_task_with_itself) {
  testing::serve(*this->request);
  const auto memory = this->end();
  for (std::size_t c = 0; c < this->count(); ++c) {
    EXPECT_TRUE(this->wanted->failures_of(c).empty());
    EXPECT_TRUE(this->wanted->is_placed(c, memory));
  }
}

TYPED_TEST_P(RequestSuite, a_failure_that_it_is_given_becomes_that_of_each_chunk) {
  const Error closed(Status::shutdown, "the engine was stopped", "closed");
  this->request->complete(0, {}, &closed);
  this->end();
  this->expect_failed(Status::shutdown);
}

TYPED_TEST_P(RequestSuite, what_cannot_be_read_fails_and_the_request_ends) {
  if (!TypeParam::kReads) GTEST_SKIP() << "it asks no storage";
  this->wanted->object().damaged = {{0, ~std::uint64_t{0}}};
  testing::serve(*this->request);
  this->end();
  this->expect_failed(Status::io);
}

TYPED_TEST_P(RequestSuite, abandoned_in_its_read_it_fails_its_chunks_and_ends_its_task_though_it_lives) {
  if (!this->request->can_be_abandoned()) GTEST_SKIP() << "it is not abandoned";
  const Error overdue(Status::io, "storage does not answer", "deadline");
  static_cast<void>(this->request->prepare(0, {}));
  this->request->abandon(overdue);
  this->fixture.finish(*this->wanted);
  EXPECT_TRUE(this->wanted->is_settled());
  EXPECT_EQ(this->wanted->open_reads(), 0);
  this->expect_failed(Status::io);
  this->request.reset();
}

REGISTER_TYPED_TEST_SUITE_P(RequestSuite, brings_all_of_its_chunks_and_ends_its_task_with_itself,
                            a_failure_that_it_is_given_becomes_that_of_each_chunk,
                            what_cannot_be_read_fails_and_the_request_ends,
                            abandoned_in_its_read_it_fails_its_chunks_and_ends_its_task_though_it_lives);

}  // namespace damacy
