#include "damacy/cache/pages_ahead.h"

#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "damacy/device/device.h"
#include "support/eventually.h"

namespace damacy {
namespace {

using testing::eventually;

constexpr int kPopulateWrite = 23;
constexpr std::size_t kPage = 4096;

std::size_t resident_pages(std::span<std::byte> memory) {
  std::vector<unsigned char> pages(memory.size() / kPage);
  if (::mincore(memory.data(), memory.size(), pages.data()) != 0) return 0;
  std::size_t count = 0;
  for (const unsigned char page : pages) count += page & 1u;
  return count;
}

class PagesAheadOfWrites : public ::testing::Test {
 protected:
  void SetUp() override {
    const HostBuffer page(std::make_shared<PageAlloc>(), kPage);
    if (::madvise(page.data(), kPage, kPopulateWrite) != 0) GTEST_SKIP() << "the kernel cannot";
  }
  const HostBuffer memory_{std::make_shared<PageAlloc>(), 4 * PagesAhead::kAhead};
};

TEST_F(PagesAheadOfWrites, are_resident_and_those_far_ahead_are_not) {
  PagesAhead pages(memory_.bytes());
  EXPECT_TRUE(eventually([&] { return pages.resident() >= PagesAhead::kAhead; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // time for a thread that would go on
  EXPECT_EQ(pages.resident(), PagesAhead::kAhead);
  EXPECT_EQ(resident_pages(memory_.bytes()), PagesAhead::kAhead / kPage);
}

TEST_F(PagesAheadOfWrites, follow_the_writes_to_the_end_and_keep_what_is_written) {
  PagesAhead pages(memory_.bytes());
  const std::size_t step = PagesAhead::kAhead / 4;
  for (std::size_t at = 0; at < memory_.size(); at += step) {
    memory_.data()[at] = std::byte{0x5a};
    pages.written_to(at + step);
  }
  EXPECT_TRUE(eventually([&] { return pages.resident() == memory_.size(); }));
  EXPECT_EQ(resident_pages(memory_.bytes()), memory_.size() / kPage);
  for (std::size_t at = 0; at < memory_.size(); at += step) EXPECT_EQ(memory_.data()[at], std::byte{0x5a});
}

TEST_F(PagesAheadOfWrites, stop_with_their_owner) {
  for (int i = 0; i < 20; ++i) const PagesAhead pages(memory_.bytes());
}

TEST(PagesAhead, of_no_memory_do_nothing) {
  PagesAhead pages({});
  pages.written_to(1);
  EXPECT_EQ(pages.resident(), 0);
}

}  // namespace
}  // namespace damacy
