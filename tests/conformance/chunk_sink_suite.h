// What every ChunkSink does with the chunks that reads give it. A new implementation joins with
//   struct MyFixture {
//     static constexpr bool kTakesParts = true;   // chunks of which only some ranges were read
//     // A sink of all the chunks of `chunks`.
//     std::shared_ptr<ChunkSink> make(const std::shared_ptr<testing::FakeChunks>& chunks);
//     // All that was taken is in the destination, or has failed. Returns the destination's bytes.
//     std::vector<std::byte> finish(testing::FakeChunks& chunks);
//     std::shared_ptr<Alloc> alloc();             // of the destination
//   };
//   INSTANTIATE_TYPED_TEST_SUITE_P(My, ChunkSinkSuite, MyFixture);
// The suite plays the reads.
#pragma once

#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "damacy/fetch/chunk_reads.h"
#include "fakes/fake_chunks.h"

namespace damacy {

template <class Fixture>
class ChunkSinkSuite : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = 20'000;
  using Chunks = std::vector<testing::FakeChunk>;

  void make(Chunks chunks, CodecChain codecs = {}) {
    wanted = testing::FakeChunks::make(std::move(chunks), {.codecs = std::move(codecs), .alloc = fixture.alloc()});
    task = wanted->new_task();
    sink = fixture.make(wanted);
  }
  static Chunks two_raw() {
    return {testing::raw_chunk(kBytes, {{10, 500}, {400, 9000}}, 1), testing::raw_chunk(kBytes, {{0, kBytes}}, 2)};
  }
  static Chunks two_packed() {
    return {testing::blosc_chunk(kBytes, {{10, 500}, {400, 9000}}, 1024, 1),
            testing::blosc_chunk(kBytes, {{0, kBytes}}, 1024, 2)};
  }
  // As a read of all chunks does it: into the sink's buffer.
  void take_all() {
    std::uint64_t bytes = 0;
    for (std::size_t c = 0; c < 2; ++c) bytes += wanted->where(c).bytes;
    const ReadBuffer buffer = sink->buffer(bytes, {});
    ASSERT_GE(buffer.bytes.size(), bytes);
    wanted->object().read_exact(0, buffer.bytes.first(bytes));
    for (std::size_t c = 0; c < 2; ++c)
      EXPECT_TRUE(sink->take(0, c, buffer.bytes.subspan(wanted->where(c).offset, wanted->where(c).bytes), {}, {}));
  }
  void expect_placed() {
    sink->end();
    sink.reset();
    const std::vector<std::byte> memory = fixture.finish(*wanted);
    for (std::size_t c = 0; c < 2; ++c) {
      EXPECT_TRUE(wanted->is_placed(c, memory));
      EXPECT_TRUE(wanted->failures_of(c).empty());
    }
  }

  Fixture fixture;
  std::shared_ptr<testing::FakeChunks> wanted;
  Task<Job> task;  // so that the job does not settle meanwhile
  std::shared_ptr<ChunkSink> sink;
};

TYPED_TEST_SUITE_P(ChunkSinkSuite);

TYPED_TEST_P(ChunkSinkSuite, what_is_needed_of_raw_chunks_goes_to_its_parts) {
  this->make(this->two_raw());
  EXPECT_EQ(&this->sink->chunks(), static_cast<FetchedChunks*>(this->wanted.get()));
  this->take_all();
  this->expect_placed();
}

TYPED_TEST_P(ChunkSinkSuite, what_is_needed_of_packed_chunks_goes_to_its_parts) {
  this->make(this->two_packed(), testing::blosc_chain());
  this->take_all();
  this->expect_placed();
}

TYPED_TEST_P(ChunkSinkSuite, a_damaged_chunk_fails_alone_and_once) {
  auto chunks = this->two_packed();
  for (std::byte& byte : chunks[1].stored) byte = std::byte{0xff};
  this->make(chunks, testing::blosc_chain());
  this->take_all();
  this->sink->end();
  this->sink.reset();
  const auto memory = this->fixture.finish(*this->wanted);
  EXPECT_TRUE(this->wanted->is_placed(0, memory));
  EXPECT_TRUE(this->wanted->failures_of(0).empty());
  ASSERT_EQ(this->wanted->failures_of(1).size(), 1u);
  EXPECT_EQ(this->wanted->failures_of(1)[0].status(), Status::decode);
  EXPECT_TRUE(this->wanted->is_untouched(1));
}

TYPED_TEST_P(ChunkSinkSuite, a_chunk_that_cannot_be_read_fails_alone_with_that_error) {
  this->make(this->two_raw());
  const std::uint64_t bytes = this->wanted->where(0).bytes + this->wanted->where(1).bytes;
  const ReadBuffer buffer = this->sink->buffer(bytes, {});
  this->wanted->object().read_exact(0, buffer.bytes.first(bytes));
  this->sink->fail_read(0, Error(Status::io, "the disk is damaged", "io"));
  const ChunkPlace& second = this->wanted->where(1);
  EXPECT_TRUE(this->sink->take(0, 1, buffer.bytes.subspan(second.offset, second.bytes), {}, {}));
  this->sink->end();
  this->sink.reset();
  const auto memory = this->fixture.finish(*this->wanted);
  ASSERT_EQ(this->wanted->failures_of(0).size(), 1u);
  EXPECT_EQ(this->wanted->failures_of(0)[0].where().reason, "io");
  EXPECT_TRUE(this->wanted->is_untouched(0));
  EXPECT_TRUE(this->wanted->is_placed(1, memory));
}

// Memory that was not read has other bytes: they must not be placed.
TYPED_TEST_P(ChunkSinkSuite, of_a_part_it_takes_what_is_enough_and_leaves_what_is_not) {
  if (!TypeParam::kTakesParts) GTEST_SKIP() << "it gets whole chunks only";
  for (const bool is_packed : {false, true}) {
    this->make(is_packed ? this->two_packed() : this->two_raw(), is_packed ? testing::blosc_chain() : CodecChain());
    const ChunkPlace& place = this->wanted->where(0);
    std::vector<std::byte> packed(place.bytes, std::byte{0xee});
    const auto read_to = [&](std::uint64_t end) {
      this->wanted->object().read_exact(place.offset, std::span(packed).first(end));
      return ByteRange{0, end};
    };
    const ByteRange few = read_to(is_packed ? 200 : 8999);
    EXPECT_FALSE(this->sink->take(0, 0, packed, {&few, 1}, {})) << "packed " << is_packed;
    EXPECT_TRUE(this->wanted->is_untouched(0));
    EXPECT_TRUE(this->wanted->failures_of(0).empty());
    const ByteRange enough = read_to(is_packed ? place.bytes - 1 : 9000);
    EXPECT_TRUE(this->sink->take(0, 0, packed, {&enough, 1}, {})) << "packed " << is_packed;
    {
      const ReadBuffer second = this->sink->buffer(this->wanted->where(1).bytes, {});
      const std::span<std::byte> bytes = second.bytes.first(this->wanted->where(1).bytes);
      this->wanted->object().read_exact(this->wanted->where(1).offset, bytes);
      EXPECT_TRUE(this->sink->take(0, 1, bytes, {}, {}));
    }
    this->expect_placed();
    this->task.end();
    this->fixture = TypeParam();
  }
}

TYPED_TEST_P(ChunkSinkSuite, a_job_that_is_not_wanted_any_more_gets_no_elements) {
  this->make(this->two_packed(), testing::blosc_chain());
  this->wanted->unwanted = Error(Status::shutdown, "the read was cancelled", "cancelled");
  if (this->sink->only_reads()) GTEST_SKIP() << "it decodes nothing: reads ask before";
  const ReadBuffer buffer = this->sink->buffer(this->wanted->where(0).bytes, {});
  EXPECT_TRUE(this->sink->take(0, 0, buffer.bytes.first(this->wanted->where(0).bytes), {}, {}));
  ASSERT_EQ(this->wanted->failures_of(0).size(), 1u);
  EXPECT_EQ(this->wanted->failures_of(0)[0].where().reason, "cancelled");
  this->sink->end();
  this->sink.reset();
  this->fixture.finish(*this->wanted);
  EXPECT_TRUE(this->wanted->is_untouched(0));
}

REGISTER_TYPED_TEST_SUITE_P(ChunkSinkSuite, what_is_needed_of_raw_chunks_goes_to_its_parts,
                            what_is_needed_of_packed_chunks_goes_to_its_parts, a_damaged_chunk_fails_alone_and_once,
                            a_chunk_that_cannot_be_read_fails_alone_with_that_error,
                            of_a_part_it_takes_what_is_enough_and_leaves_what_is_not,
                            a_job_that_is_not_wanted_any_more_gets_no_elements);

}  // namespace damacy
