// The order of a stream: which batches its samples form, and where errors stand among them.
#include "damacy/pipeline/sample_stream.h"

#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "fakes/no_row_writer.h"
#include "support/layouts.h"

namespace damacy {
namespace {

using Indices = std::vector<std::int64_t>;

class SampleStreamTest : public ::testing::Test {
 protected:
  static Config config_of(std::int64_t batch_size, std::int64_t lookahead) {
    Config config;
    config.batch_size = batch_size;
    config.lookahead_batches = lookahead;
    return config;
  }
  std::shared_ptr<QueuedSource> add_source() {
    auto source = std::make_shared<QueuedSource>();
    stream.add_source(source);
    return source;
  }
  void accept(int samples, bool ends_batch = false) {
    for (int i = 0; i < samples; ++i) stream.accept({.parts = {PlannedPart{}}}, layout, ends_batch);
  }
  static std::exception_ptr error(const char* what) { return std::make_exception_ptr(std::runtime_error(what)); }
  static std::string what(const std::exception_ptr& error) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const std::runtime_error& thrown) {
      return thrown.what();
    }
    return "";
  }
  // Settles the oldest batch that is planned and not settled, and takes it from the front.
  Indices pop() {
    const std::shared_ptr<BatchJob> job = stream.front()->job;
    if (stream.has_unplanned() && !stream.front()->started) stream.plan_next();
    stream.mark_started(*job);
    settle(job);
    stream.drop_front();
    Indices indices;
    for (std::int64_t i = job->shape().first_sample; i < job->end_sample(); ++i) indices.push_back(i);
    return indices;
  }
  void settle(const std::shared_ptr<BatchJob>& job) { stream.mark_settled(*job); }

  Config config = config_of(3, 2);
  std::shared_ptr<const BatchLayout> layout = testing::layout_of({2}, Dtype::u8, 3);
  SampleStream stream{config};
};

TEST_F(SampleStreamTest, batches_are_formed_of_as_many_samples_as_a_batch_has) {
  accept(7);
  EXPECT_EQ(stream.unbatched(), 1);
  EXPECT_EQ(pop(), (Indices{0, 1, 2}));
  EXPECT_EQ(pop(), (Indices{3, 4, 5}));
  EXPECT_EQ(stream.front(), nullptr);
  EXPECT_EQ(stream.truncated(), 0);
}

TEST_F(SampleStreamTest, a_sample_that_ends_its_batch_leaves_it_short) {
  accept(1, /*ends_batch=*/true);
  accept(3);
  EXPECT_EQ(pop(), Indices{0});
  EXPECT_EQ(pop(), (Indices{1, 2, 3}));
  EXPECT_EQ(stream.truncated(), 1);
}

TEST_F(SampleStreamTest, a_flush_ends_the_run_at_once_or_behind_the_last_source) {
  accept(2);
  stream.flush();
  EXPECT_EQ(pop(), (Indices{0, 1}));

  const auto source = add_source();
  accept(1);
  stream.flush();
  EXPECT_TRUE(source->flushed && source->ends_run);
  EXPECT_EQ(stream.front(), nullptr);  // samples of the source are still to come
  accept(1);
  stream.end_first_source(nullptr);
  EXPECT_EQ(pop(), (Indices{2, 3}));
  EXPECT_EQ(stream.truncated(), 2);
  stream.reset_truncated();
  stream.flush();  // of nothing
  EXPECT_EQ(stream.front(), nullptr);
  EXPECT_EQ(stream.truncated(), 0);
}

TEST_F(SampleStreamTest, the_room_is_that_of_samples_which_are_not_in_production) {
  EXPECT_EQ(stream.room(), 6);
  accept(4);
  EXPECT_EQ(stream.room(), 2);
  EXPECT_FALSE(stream.is_half_empty());
  stream.mark_started(*stream.plan_next());
  EXPECT_EQ(stream.room(), 5);
  EXPECT_TRUE(stream.is_half_empty());
  EXPECT_TRUE(stream.in_production());
  EXPECT_FALSE(stream.has_unstarted());
  settle(stream.front()->job);
  EXPECT_FALSE(stream.in_production());
  EXPECT_EQ(stream.room(), 5);
}

TEST_F(SampleStreamTest, a_lookahead_that_overflows_is_endless) {
  const Config large = config_of(std::int64_t{1} << 40, std::int64_t{1} << 40);
  EXPECT_GT(SampleStream(large).room(), std::int64_t{1} << 62);
}

TEST_F(SampleStreamTest, more_samples_wait_when_it_looks_further_ahead_unless_it_is_set_how_many) {
  config.lookahead_batches.reset();
  SampleStream chosen{config};
  EXPECT_EQ(chosen.room(), 2 * 3);
  chosen.look_further_ahead();
  EXPECT_EQ(chosen.room(), 8 * 3);
  EXPECT_EQ(chosen.lookahead_batches(), 8);
  config.lookahead_batches = 3;
  stream.look_further_ahead();
  EXPECT_EQ(stream.room(), 3 * 3);
}

TEST_F(SampleStreamTest, batches_are_planned_and_announced_in_order_each_once) {
  accept(9);
  const auto first = stream.plan_next();
  EXPECT_EQ(first->shape().id, 0);
  EXPECT_TRUE(stream.has_unannounced());
  EXPECT_EQ(stream.announce_next()->shape().id, 1);  // what is planned need not be announced
  EXPECT_EQ(stream.announce_next()->shape().id, 2);
  EXPECT_FALSE(stream.has_unannounced());
  EXPECT_EQ(stream.plan_next()->shape().id, 1);
  EXPECT_TRUE(stream.has_unplanned());
  EXPECT_EQ(stream.plan_next()->shape().id, 2);
  EXPECT_FALSE(stream.has_unplanned());
}

TEST_F(SampleStreamTest, batches_behind_one_that_is_skipped_are_announced_all_the_same) {
  config.on_error = OnError::skip;
  const PlannedSample lost{.parts = {PlannedPart{}}, .failure = Error(Status::io, "lost", "io")};
  stream.accept(lost, layout, /*ends_batch=*/true);
  accept(3);
  EXPECT_EQ(stream.announce_next()->shape().id, 0);
  EXPECT_EQ(stream.announce_next()->shape().id, 1);
  const auto skipped = stream.plan_next();
  testing::NoRowWriter writer;
  StatsBoard board;
  skipped->start({{}, [&](BatchJob& job) { stream.mark_settled(job); }}, writer, board);
  Task(skipped).end();
  EXPECT_EQ(stream.front()->job->shape().id, 1);
  accept(3);
  ASSERT_TRUE(stream.has_unannounced());
  EXPECT_EQ(stream.announce_next()->shape().id, 2);
}

TEST_F(SampleStreamTest, the_front_is_due_when_it_is_settled_whatever_settles_before) {
  accept(6);
  const auto first = stream.plan_next(), second = stream.plan_next();
  stream.mark_started(*first);
  stream.mark_started(*second);
  settle(second);
  EXPECT_FALSE(stream.is_due());
  settle(first);
  EXPECT_TRUE(stream.is_due());
  EXPECT_EQ(stream.front()->job, first);
  stream.drop_front();
  EXPECT_TRUE(stream.is_due());
  EXPECT_EQ(stream.front()->job, second);
}

TEST_F(SampleStreamTest, an_error_is_due_before_the_batch_that_ends_behind_its_place) {
  add_source();
  accept(4);
  stream.end_first_source(error("refused"));
  accept(2);
  EXPECT_FALSE(stream.has_due_error());  // samples 0 to 2 come first
  EXPECT_EQ(stream.take_due_error(), nullptr);
  EXPECT_EQ(pop(), (Indices{0, 1, 2}));
  EXPECT_TRUE(stream.is_due());
  EXPECT_EQ(what(stream.take_due_error()), "refused");
  EXPECT_FALSE(stream.has_due_error());
  EXPECT_EQ(pop(), (Indices{3, 4, 5}));
}

TEST_F(SampleStreamTest, an_error_without_a_batch_behind_it_is_due_at_once) {
  add_source();
  accept(1);
  stream.end_first_source(error("refused"));
  EXPECT_TRUE(stream.has_due_error());
}

TEST_F(SampleStreamTest, errors_keep_their_order_and_one_that_is_put_back_comes_first) {
  add_source();
  add_source();
  stream.end_first_source(error("one"));
  stream.end_first_source(error("two"));
  auto first = stream.take_due_error();
  EXPECT_EQ(what(first), "one");
  stream.put_back_error(std::move(first));
  EXPECT_EQ(what(stream.take_due_error()), "one");
  EXPECT_EQ(what(stream.take_due_error()), "two");
  EXPECT_EQ(stream.take_due_error(), nullptr);
}

TEST_F(SampleStreamTest, sources_are_served_in_the_order_of_their_push) {
  const auto first = add_source(), second = add_source();
  EXPECT_EQ(stream.first_source(), first);
  stream.end_first_source(nullptr);
  EXPECT_EQ(stream.first_source(), second);
  EXPECT_EQ(stream.take_sources().size(), 1u);
  EXPECT_FALSE(stream.has_sources());
}

TEST_F(SampleStreamTest, a_stream_that_closes_gives_away_all_it_has) {
  accept(7);
  stream.plan_next();
  EXPECT_EQ(stream.take_samples().size(), 1u);
  EXPECT_EQ(stream.unbatched(), 0);
  EXPECT_EQ(stream.take_batch()->shape().id, 0);
  EXPECT_EQ(stream.take_batch()->shape().id, 1);
  EXPECT_EQ(stream.take_batch(), nullptr);
  EXPECT_FALSE(stream.has_unplanned());
  EXPECT_EQ(stream.take_layout(), layout);
  EXPECT_EQ(stream.layout(), nullptr);
}

}  // namespace
}  // namespace damacy
