#include "damacy/device/device.h"

#include <cerrno>

#include <sys/mman.h>

#include "conformance/alloc_suite.h"
#include "fakes/failing_alloc.h"

namespace damacy {
namespace {

struct PageFixture {
  static TestedMemory make() { return {std::make_shared<PageAlloc>()}; }
};
struct FailingFixture {  // that does not fail yet
  static TestedMemory make() {
    return {std::make_shared<FailingAlloc>(std::make_shared<PageAlloc>(), 0, /*for_ever=*/false)};
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(Pages, AllocSuite, PageFixture);
INSTANTIATE_TYPED_TEST_SUITE_P(Failing, AllocSuite, FailingFixture);

TEST(PageAlloc, unmaps_what_is_given_back) {
  PageAlloc pages;
  std::byte* const memory = pages.take(3 * Alloc::kAlignment);
  unsigned char resident[3];
  EXPECT_EQ(::mincore(memory, 3 * Alloc::kAlignment, resident), 0);
  pages.give(memory, 3 * Alloc::kAlignment);
  EXPECT_EQ(::mincore(memory, 3 * Alloc::kAlignment, resident), -1);
  EXPECT_EQ(errno, ENOMEM);
}

TEST(FailingAlloc, fails_once_or_from_then_on) {
  const auto pages = std::make_shared<PageAlloc>();
  const auto once = std::make_shared<FailingAlloc>(pages, 2, /*for_ever=*/false);
  const auto from_then_on = std::make_shared<FailingAlloc>(pages, 2, /*for_ever=*/true);
  for (const auto& alloc : {once, from_then_on}) {
    const HostBuffer first(alloc, 1);
    EXPECT_EQ(error_of([&] { const HostBuffer second(alloc, 1); }).status(), Status::oom);
  }
  EXPECT_NO_THROW(HostBuffer(once, 1));
  EXPECT_THROW(HostBuffer(from_then_on, 1), Error);
}

}  // namespace
}  // namespace damacy
