// What every Destination gives those who place elements into it. A new implementation joins with
//   struct MyFixture {
//     Destination& to();                        // of two parts at least
//     std::int64_t elements_of(std::uint32_t);  // of a part
//     static constexpr bool kCounts = true;     // it notices parts that are incomplete
//     std::optional<Error> end();               // the job's last task ends; its failure
//   };
//   INSTANTIATE_TYPED_TEST_SUITE_P(My, DestinationSuite, MyFixture);
#pragma once

#include <algorithm>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "damacy/core/error.h"
#include "damacy/plan/destination.h"

namespace damacy {

template <class Fixture>
class DestinationSuite : public ::testing::Test {
 protected:
  Fixture fixture;
};

TYPED_TEST_SUITE_P(DestinationSuite);

TYPED_TEST_P(DestinationSuite, claimed_again_it_is_the_same_memory_aligned_as_devices_align) {
  Destination& to = this->fixture.to();
  to.claim();
  const std::span<std::byte> memory = to.memory();
  EXPECT_FALSE(memory.empty());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 256, 0u);
  const std::size_t before = to.claim().size();
  EXPECT_EQ(to.claim().size(), before);
  EXPECT_EQ(to.memory().data(), memory.data());
  EXPECT_EQ(to.memory().size(), memory.size());
}

TYPED_TEST_P(DestinationSuite, parts_that_several_threads_complete_are_good) {
  Destination& to = this->fixture.to();
  to.claim();
  std::vector<std::thread> threads;
  for (std::int64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (const std::uint32_t part : {0u, 1u})
        for (std::int64_t i = t; i < this->fixture.elements_of(part); i += 4) to.placed(part, 1);
    });
  for (std::thread& thread : threads) thread.join();
  const auto failure = this->fixture.end();
  EXPECT_FALSE(failure) << failure->what();
}

TYPED_TEST_P(DestinationSuite, a_part_that_lacks_an_element_fails) {
  if (!TypeParam::kCounts) GTEST_SKIP() << "its job counts chunks";
  Destination& to = this->fixture.to();
  to.claim();
  to.placed(0, this->fixture.elements_of(0));
  to.placed(1, this->fixture.elements_of(1) - 1);
  const auto failure = this->fixture.end();
  ASSERT_TRUE(failure);
  EXPECT_NE(std::string(failure->what()).find("elements were placed"), std::string::npos) << failure->what();
}

REGISTER_TYPED_TEST_SUITE_P(DestinationSuite, claimed_again_it_is_the_same_memory_aligned_as_devices_align,
                            parts_that_several_threads_complete_are_good, a_part_that_lacks_an_element_fails);

}  // namespace damacy
