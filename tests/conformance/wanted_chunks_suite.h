// What every WantedChunks says about its chunks. A new implementation joins with
//   struct MyFixture {
//     std::shared_ptr<WantedChunks> make();   // two chunks at least, all located, of which some are needed twice
//     bool has_failed(std::size_t chunk);     // says its job; asked once, last
//     bool is_settled();                      // the job that wants them
//   };
//   INSTANTIATE_TYPED_TEST_SUITE_P(My, WantedChunksSuite, MyFixture);
#pragma once

#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "damacy/fetch/wanted_chunks.h"

namespace damacy {

template <class Fixture>
class WantedChunksSuite : public ::testing::Test {
 protected:
  using From = WantedChunks::From;
  static std::size_t count(const WantedChunks& chunks) { return chunks.wants().chunks.size(); }
  // The first and the last byte of an element that a copy touches; `side`: its strides.
  static ByteRange span_of(const BlockCopy& copy, std::int64_t offset, std::int64_t CopyAxis::* side,
                           std::size_t element) {
    std::int64_t last = offset;
    for (const CopyAxis& axis : copy.used()) last += (axis.extent - 1) * (axis.*side);
    return {static_cast<std::uint64_t>(offset), static_cast<std::uint64_t>(last) + element};
  }
  Fixture fixture;
};

TYPED_TEST_SUITE_P(WantedChunksSuite);

TYPED_TEST_P(WantedChunksSuite, chunks_lie_in_their_objects_and_those_of_one_follow_one_another) {
  const auto chunks = this->fixture.make();
  const Wants& wants = chunks->wants();
  ASSERT_GE(wants.chunks.size(), 2u);
  std::uint32_t last = 0;
  for (const Want& want : wants.chunks) {
    ASSERT_LT(want.array, wants.arrays.size());
    ASSERT_LT(want.object, wants.objects.size());
    EXPECT_GE(want.object, last);
    last = want.object;
    ASSERT_FALSE(want.place.missing || want.place.failed);
    EXPECT_LE(want.place.offset + want.place.bytes, wants.objects[want.object]->stamp().size);
  }
}

TYPED_TEST_P(WantedChunksSuite, the_bytes_that_are_needed_are_sorted_in_the_chunk_and_have_every_use) {
  const auto chunks = this->fixture.make();
  for (std::size_t c = 0; c < this->count(*chunks); ++c) {
    const std::vector<ByteRange> needed = chunks->needed_bytes(c);
    std::uint64_t end = 0;
    for (const ByteRange& range : needed) {
      EXPECT_GE(range.begin, end);
      EXPECT_LT(range.begin, range.end);
      end = range.end;
    }
    EXPECT_LE(end, chunks->metadata_of(c).chunk_bytes());
    const std::size_t element = size_of(chunks->metadata_of(c).dtype);
    chunks->for_uses(c, WantedChunks::From::chunk, [&](const Use& use) {
      const ByteRange span = this->span_of(use.copy, use.copy.src_offset, &CopyAxis::src_stride, element);
      EXPECT_TRUE(covers(needed, span.begin, span.end)) << c;
    });
  }
}

TYPED_TEST_P(WantedChunksSuite, uses_are_counted_and_go_to_places_of_their_own_in_the_destination) {
  const auto chunks = this->fixture.make();
  const std::size_t bytes = chunks->destination().memory().size();
  std::vector<int> written(bytes, 0);
  std::int64_t most = 0;
  for (std::size_t c = 0; c < this->count(*chunks); ++c) {
    std::int64_t uses = 0;
    chunks->for_uses(c, WantedChunks::From::chunk, [&](const Use& use) {
      ++uses;
      const std::size_t element = size_of(use.copy.op.to);
      const ByteRange span = this->span_of(use.copy, use.copy.dst_offset, &CopyAxis::dst_stride, element);
      ASSERT_LE(span.end, bytes);
      std::vector<std::int64_t> offsets{use.copy.dst_offset};
      for (const CopyAxis& axis : use.copy.used()) {
        std::vector<std::int64_t> more;
        for (const std::int64_t offset : offsets)
          for (std::int64_t i = 0; i < axis.extent; ++i) more.push_back(offset + i * axis.dst_stride);
        offsets = std::move(more);
      }
      EXPECT_EQ(use.elements(), static_cast<std::int64_t>(offsets.size()));
      for (const std::int64_t offset : offsets) ++written[static_cast<std::size_t>(offset)];
    });
    EXPECT_EQ(uses, chunks->count_uses(c));
    most = std::max(most, uses);
  }
  EXPECT_GE(most, 2);
  EXPECT_EQ(std::ranges::count_if(written, [](int times) { return times > 1; }), 0);
}

TYPED_TEST_P(WantedChunksSuite, a_chunk_that_is_missing_is_one_element_that_goes_to_the_same_places) {
  const auto chunks = this->fixture.make();
  for (std::size_t c = 0; c < this->count(*chunks); ++c) {
    EXPECT_EQ(chunks->fill_of(c).size(), size_of(chunks->metadata_of(c).dtype));
    std::vector<std::int64_t> stored, filled;
    chunks->for_uses(c, WantedChunks::From::chunk, [&](const Use& use) {
      stored.push_back(use.part), stored.push_back(use.copy.dst_offset), stored.push_back(use.elements());
    });
    chunks->for_uses(c, WantedChunks::From::fill, [&](const Use& use) {
      filled.push_back(use.part), filled.push_back(use.copy.dst_offset), filled.push_back(use.elements());
      EXPECT_EQ(use.copy.src_offset, 0);
      for (const CopyAxis& axis : use.copy.used()) EXPECT_EQ(axis.src_stride, 0);
    });
    EXPECT_EQ(stored, filled);
  }
}

TYPED_TEST_P(WantedChunksSuite, a_chunk_that_fails_is_told_to_its_job) {
  const auto chunks = this->fixture.make();
  chunks->fail_chunk(1, Error(Status::decode, "damaged", "checksum"));
  EXPECT_TRUE(this->fixture.has_failed(1));
}

TYPED_TEST_P(WantedChunksSuite, an_open_task_keeps_the_job) {
  const auto chunks = this->fixture.make();
  auto first = chunks->new_task();
  auto second = chunks->new_task();
  first.end();
  EXPECT_FALSE(this->fixture.is_settled());
  second.end();
}

REGISTER_TYPED_TEST_SUITE_P(WantedChunksSuite, chunks_lie_in_their_objects_and_those_of_one_follow_one_another,
                            the_bytes_that_are_needed_are_sorted_in_the_chunk_and_have_every_use,
                            uses_are_counted_and_go_to_places_of_their_own_in_the_destination,
                            a_chunk_that_is_missing_is_one_element_that_goes_to_the_same_places,
                            a_chunk_that_fails_is_told_to_its_job, an_open_task_keeps_the_job);

}  // namespace damacy
