// The doubles that the sweeps put in place of memory and devices keep the contracts of what they stand for.
#include <gtest/gtest.h>

#include "conformance/alloc_suite.h"
#include "conformance/device_suite.h"
#include "damacy/device/host_device.h"
#include "sweeps/guarded_alloc.h"
#include "sweeps/spared_device.h"

namespace damacy::testing {
namespace {

struct GuardedFixture {
  static TestedMemory make() { return {std::make_shared<GuardedAlloc>()}; }
};
INSTANTIATE_TYPED_TEST_SUITE_P(Guarded, AllocSuite, GuardedFixture);

struct SparedFixture {
  static std::shared_ptr<Device> make() {
    return std::make_shared<SparedDevice>(make_host_device({.kind = HostOrder::Kind::lazy}));
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(Spared, DeviceSuite, SparedFixture);
INSTANTIATE_TYPED_TEST_SUITE_P(Spared, AllocSuite, MemoriesOf<SparedFixture>);

TEST(GuardedAlloc, counts_buffers_that_were_overrun) {
  const auto guarded = std::make_shared<GuardedAlloc>();
  {
    const HostBuffer sound(guarded, 100);
    EXPECT_EQ(guarded->held(), 100u);
  }
  EXPECT_EQ(guarded->broken_guards(), 0u);
  {
    const HostBuffer overrun(guarded, 100);
    overrun.data()[100] = std::byte{1};
  }
  EXPECT_EQ(guarded->broken_guards(), 1u);
  EXPECT_EQ(guarded->held(), 0u);
}

}  // namespace
}  // namespace damacy::testing
