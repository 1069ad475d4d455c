#include "damacy/batch/slots.h"

#include <gtest/gtest.h>

#include "damacy/device/host_device.h"
#include "support/forwarding_device.h"

namespace damacy {
namespace {

// An event that passes when the test says so.
class Gate final : public Event::State {
 public:
  explicit Gate(bool streams) : streams_(streams) {}
  bool ready() override { return open; }
  bool wait(std::stop_token) override { return open; }
  std::optional<double> ms_since(Event::State&) override { return std::nullopt; }
  bool for_streams() const noexcept override { return streams_; }
  bool open = false;

 private:
  bool streams_;
};

// A device whose consumers' work is fenced as the test says.
class FencedDevice final : public testing::ForwardingDevice {
 public:
  FencedDevice() : ForwardingDevice(make_host_device()) {}
  std::optional<Event> try_fence(std::uint64_t) override {
    if (capturing) return std::nullopt;
    return Event(gate);
  }
  Event fence_all(bool) override {
    ++asked_for_all;
    return Event(gate);
  }

  bool capturing = false;
  int asked_for_all = 0;
  std::shared_ptr<Gate> gate = std::make_shared<Gate>(true);
};

struct OneSlot : ::testing::Test {
  OneSlot() { slots->allocate(std::make_shared<PageAlloc>(), 64); }
  const std::shared_ptr<FencedDevice> device = std::make_shared<FencedDevice>();
  const std::shared_ptr<Slots> slots = std::make_shared<Slots>(1, device, [] {});
};

TEST_F(OneSlot, the_next_loan_carries_what_streams_must_wait_for) {
  slots->lend(0)->used_on_some_stream();
  ASSERT_TRUE(slots->any_free());
  const auto next = slots->lend(1);
  ASSERT_EQ(next->ready().size(), 1u);
  EXPECT_EQ(next->ready()[0].state(), device->gate);
}

TEST_F(OneSlot, while_a_graph_is_captured_the_slot_waits_for_its_fence) {
  device->capturing = true;
  slots->lend(0)->used_on_legacy_stream();
  EXPECT_FALSE(slots->any_free());
  EXPECT_TRUE(slots->any_unfenced());
  EXPECT_EQ(slots->lend(1), nullptr);
  device->capturing = false;
  EXPECT_TRUE(slots->any_free());
  EXPECT_EQ(slots->lend(1)->ready().size(), 1u);
}

TEST_F(OneSlot, a_fence_that_no_stream_can_wait_for_passes_before_the_slot_is_lent) {
  device->gate = std::make_shared<Gate>(false);
  slots->lend(0)->used_on_some_stream();
  EXPECT_FALSE(slots->any_free());
  EXPECT_FALSE(slots->any_free());
  EXPECT_TRUE(slots->any_unfenced());
  EXPECT_EQ(slots->lend(1), nullptr);
  device->gate->open = true;
  EXPECT_TRUE(slots->any_free());
  EXPECT_EQ(slots->lend(1)->ready().size(), 0u);
  EXPECT_EQ(device->asked_for_all, 1);
}

}  // namespace
}  // namespace damacy
