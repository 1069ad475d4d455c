#include "damacy/single/process_readers.h"

#include <gtest/gtest.h>

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

TEST(ProcessReaders, are_the_same_in_the_whole_process) {
  EXPECT_EQ(process_readers().one_thread_a_core(), process_readers().one_thread_a_core());
}

}  // namespace
}  // namespace damacy
