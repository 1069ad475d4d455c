#include "damacy/single/process_readers.h"

#include <atomic>

#include <gtest/gtest.h>

#include "support/error_of.h"

namespace damacy {
namespace {

TEST(ProcessReaders, are_one_set_for_each_number_of_threads) {
  ProcessReaders readers;
  const auto two = readers.with_threads(2);
  EXPECT_EQ(readers.with_threads(2), two);
  const auto one = readers.with_threads(1);
  EXPECT_NE(one, two);
  EXPECT_EQ(readers.with_threads(0), one);
  EXPECT_EQ(readers.all(), (std::vector{one, two}));
}

TEST(ProcessReaders, have_one_cache_of_the_size_that_was_asked_for_last) {
  ProcessReaders readers;
  std::atomic<std::uint64_t> setting = 3 << 20;
  EXPECT_EQ(readers.cache_of(0), nullptr);
  const auto first = readers.cache_of(1 << 20);
  EXPECT_EQ(readers.cache_of(1 << 20), first);
  const std::weak_ptr<ChunkTier> second = readers.cache_of(2 << 20);
  EXPECT_NE(second.lock(), first);
  EXPECT_EQ(readers.cache_bytes(), 2u << 20);
  EXPECT_TRUE(first->reserve({}, 100));  // a read under way keeps it
  EXPECT_EQ(readers.any_cache(setting), second.lock());
  EXPECT_EQ(readers.cache_of(0), nullptr);
  EXPECT_TRUE(second.expired());
  setting = 0;
  EXPECT_EQ(readers.any_cache(setting), nullptr);
  readers.set_cache(setting, 3 << 20);
  EXPECT_EQ(setting, 3u << 20);
  EXPECT_NE(readers.any_cache(setting), nullptr);
  EXPECT_EQ(readers.cache_bytes(), 3u << 20);
  EXPECT_NE(readers.cache_of(1 << 20), first);
}

TEST(ProcessReaders, throw_for_a_cache_that_cannot_be_allocated_and_go_on) {
  ProcessReaders readers;
  static_cast<void>(readers.cache_of(1 << 20));
  const Error error = error_of([&] { static_cast<void>(readers.cache_of(std::uint64_t{1} << 62)); });
  EXPECT_EQ(error.status(), Status::oom);
  EXPECT_EQ(readers.cache_bytes(), 0u);
  EXPECT_EQ(readers.cache_of(0), nullptr);
  EXPECT_NE(readers.cache_of(1 << 20), nullptr);
}

TEST(ProcessReaders, are_the_same_in_the_whole_process) {
  EXPECT_EQ(process_readers().one_thread_a_core(), process_readers().one_thread_a_core());
}

}  // namespace
}  // namespace damacy
