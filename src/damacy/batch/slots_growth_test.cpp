// Slots that come and go: the cap, what is lent, what is dropped, and that memory ends behind its last use.
#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "damacy/batch/slots.h"
#include "damacy/device/host_device.h"
#include "fakes/failing_alloc.h"
#include "support/forwarding_device.h"

namespace damacy {
namespace {

constexpr std::size_t kBytes = 4096;

struct Growing : ::testing::Test {
  std::shared_ptr<Slots> with(std::size_t count, std::uint64_t added, std::shared_ptr<Alloc> alloc = pages()) const {
    auto slots = std::make_shared<Slots>(count, nullptr, [] {});
    slots->allocate(alloc, kBytes, added * kBytes);
    return slots;
  }
  static std::shared_ptr<Alloc> pages() { return std::make_shared<PageAlloc>(); }
};

std::shared_ptr<SlotLoan> popped(Slots& slots, std::int64_t id) {
  auto loan = slots.lend(id);
  if (loan) slots.hold(loan->slot());
  return loan;
}

TEST_F(Growing, without_a_cap_no_slot_is_added) {
  const auto slots = with(1, 0);
  const auto held = popped(*slots, 0);
  EXPECT_FALSE(slots->is_short());
  EXPECT_EQ(slots->add(), Slots::Growth::at_cap);
}

TEST_F(Growing, it_is_short_of_slots_when_the_consumer_leaves_fewer_than_all_but_one) {
  for (const auto& [count, may_hold] : {std::pair<std::size_t, int>{1, 0}, {2, 1}, {3, 1}, {4, 1}}) {
    const auto slots = with(count, 8);
    std::vector<std::shared_ptr<SlotLoan>> held;
    for (int i = 0; i < may_hold; ++i) held.push_back(popped(*slots, i));
    EXPECT_FALSE(slots->is_short()) << count;
    held.push_back(popped(*slots, may_hold));
    EXPECT_TRUE(slots->is_short()) << count;
    EXPECT_EQ(slots->add(), Slots::Growth::added);
    EXPECT_FALSE(slots->is_short()) << count;
  }
}

TEST_F(Growing, slots_are_added_up_to_the_cap) {
  auto slots = std::make_shared<Slots>(2, nullptr, [] {});
  slots->allocate(pages(), kBytes, 3 * kBytes + kBytes - 1);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(slots->add(), Slots::Growth::added);
  EXPECT_EQ(slots->add(), Slots::Growth::at_cap);
  EXPECT_EQ(slots->added().slots, 3u);
  EXPECT_EQ(slots->added().bytes, 3 * kBytes);
}

TEST_F(Growing, added_slots_do_not_make_it_read_further_ahead) {
  const auto slots = with(2, 4);
  for (int i = 0; i < 4; ++i) slots->add();
  const auto first = slots->lend(0), second = slots->lend(1);
  EXPECT_FALSE(slots->any_free());
  EXPECT_EQ(slots->lend(2), nullptr);
  slots->hold(first->slot());
  EXPECT_FALSE(slots->any_free()) << "one is held, one is made, as without added slots";
  slots->hold(second->slot());
  EXPECT_TRUE(slots->any_free());
  const auto third = slots->lend(2);
  EXPECT_NE(third, nullptr);
  EXPECT_EQ(slots->lend(3), nullptr);
}

// So who lends asks for the loan, not whether there is a slot.
TEST_F(Growing, a_slot_that_was_free_may_be_dropped_before_it_is_lent) {
  const auto slots = with(2, 1);
  const auto first = popped(*slots, 0), second = popped(*slots, 1);
  slots->add();
  for (std::uint64_t i = 0; i < Slots::kIdleBatches; ++i) slots->hold(first->slot());
  EXPECT_TRUE(slots->any_free());
  EXPECT_EQ(slots->drop_idle(), 1u);
  EXPECT_EQ(slots->lend(2), nullptr);
}

TEST_F(Growing, all_slots_are_held_only_when_the_added_ones_are_too) {
  const auto slots = with(1, 1);
  const auto first = popped(*slots, 7);
  EXPECT_EQ(slots->held_batches(), std::vector<std::int64_t>{7});
  slots->add();
  EXPECT_TRUE(slots->held_batches().empty());
  const auto second = popped(*slots, 8);
  EXPECT_EQ(slots->held_batches(), (std::vector<std::int64_t>{7, 8}));
  EXPECT_EQ(slots->added().held, 2u);
}

TEST_F(Growing, an_added_slot_is_dropped_when_it_was_free_for_64_batches) {
  const auto alloc = std::make_shared<FailingAlloc>(pages(), 0, false);
  const auto slots = with(1, 2, alloc);
  slots->add();
  for (std::uint64_t i = 0; i < Slots::kIdleBatches; ++i) {
    EXPECT_FALSE(slots->any_idle()) << i;
    EXPECT_EQ(slots->drop_idle(), 0u);
    popped(*slots, static_cast<std::int64_t>(i));
  }
  EXPECT_TRUE(slots->any_idle());
  EXPECT_EQ(slots->drop_idle(), 1u);
  EXPECT_EQ(slots->added().bytes, 0u);
  EXPECT_FALSE(slots->any_idle());
  EXPECT_EQ(slots->add(), Slots::Growth::added);  // in the place of the one that went
  EXPECT_EQ(alloc->takes(), 3u);
}

TEST_F(Growing, use_begins_the_count_anew_and_slots_that_stay_are_never_dropped) {
  const auto slots = with(1, 1);
  slots->add();
  for (int round = 0; round < 3; ++round) {
    for (std::uint64_t i = 0; i + 1 < Slots::kIdleBatches; ++i) popped(*slots, 0);
    const auto first = popped(*slots, 1), in_added = popped(*slots, 2);
    EXPECT_EQ(slots->drop_idle(), 0u) << round;
  }
  for (int i = 0; i < 200; ++i) popped(*slots, i);
  EXPECT_EQ(slots->drop_idle(), 1u);
  EXPECT_TRUE(slots->any_free());
}

TEST_F(Growing, memory_that_cannot_be_had_counts_as_the_cap_and_says_so) {
  const auto slots = with(1, 4, std::make_shared<FailingAlloc>(pages(), 2, false));
  EXPECT_EQ(slots->add(), Slots::Growth::no_memory);
  EXPECT_EQ(slots->added().bytes, 0u);
  EXPECT_NE(slots->added().refusal.find("no memory for a buffer of 4096 bytes"), std::string::npos);
  EXPECT_EQ(slots->add(), Slots::Growth::added);
  EXPECT_EQ(slots->added().refusal, "");
}

TEST_F(Growing, a_slot_that_is_lent_at_the_end_is_freed_by_its_last_user) {
  const auto alloc = std::make_shared<FailingAlloc>(pages(), 0, false);
  const auto slots = with(1, 2, alloc);
  slots->add();
  slots->add();
  const auto first = popped(*slots, 0);
  auto second = popped(*slots, 1);
  std::memset(second->memory().data(), 7, kBytes);
  slots->retire();
  EXPECT_EQ(slots->add(), Slots::Growth::at_cap);
  EXPECT_EQ(second->memory()[kBytes - 1], std::byte{7});
  second.reset();
  EXPECT_EQ(slots->lend(2), nullptr);
}

// Random consumers against a plain model: what is held keeps its bytes, and added memory stays below its cap.
TEST_F(Growing, random_consumers_keep_what_they_hold_and_memory_is_bounded) {
  for (std::uint64_t seed = 0; seed < 64; ++seed) {
    std::mt19937_64 random(seed);
    const std::size_t count = 1 + random() % 3;
    const std::uint64_t cap = random() % 6;
    const auto slots = with(count, cap);
    std::vector<std::pair<std::shared_ptr<SlotLoan>, std::byte>> held;
    std::size_t most = 0;
    for (std::int64_t batch = 0; batch < 600; ++batch) {
      slots->drop_idle();
      if (slots->is_short()) slots->add();
      most = std::max<std::size_t>(most, slots->added().slots);
      ASSERT_LE(slots->added().bytes, cap * kBytes);
      auto loan = popped(*slots, batch);
      ASSERT_EQ(loan == nullptr, held.size() == count + cap) << seed;
      if (loan) {
        const auto value = static_cast<std::byte>(random());
        std::memset(loan->memory().data(), static_cast<int>(value), kBytes);
        held.emplace_back(std::move(loan), value);
      }
      for (const auto& [kept, value] : held) {
        ASSERT_EQ(kept->memory().front(), value);
        ASSERT_EQ(kept->memory().back(), value);
      }
      const std::size_t keep = batch % 200 < 100 ? random() % (count + cap + 1) : 0;
      while (held.size() > keep) held.erase(held.begin() + static_cast<std::ptrdiff_t>(random() % held.size()));
    }
    ASSERT_LE(most, cap);
    ASSERT_EQ(slots->added().slots, 0u) << "all were free for the last 64 batches";
  }
}

// Fills what is given back, and gives it out again.
class ReusingAlloc final : public Alloc {
 public:
  std::byte* take(std::size_t bytes) override {
    if (free_.empty()) return inner_.take(bytes);
    std::byte* memory = free_.back();
    free_.pop_back();
    return memory;
  }
  void give(std::byte* memory, std::size_t bytes) noexcept override {
    std::memset(memory, 0xee, bytes);
    free_.push_back(memory);
  }
  ~ReusingAlloc() override {
    for (std::byte* memory : free_) inner_.give(memory, kBytes);
  }

 private:
  PageAlloc inner_;
  std::vector<std::byte*> free_;
};

// A device that works late, of which a consumer has a stream; all of its work is what that one has queued.
class ConsumedDevice final : public testing::ForwardingDevice {
 public:
  explicit ConsumedDevice(HostOrder order)
      : ForwardingDevice(make_host_device(order, std::make_shared<ReusingAlloc>())) {}
  bool is_host() const noexcept override { return false; }
  std::shared_ptr<OrderedAlloc> make_ordered_memory() override { return inner().make_ordered_memory(); }
  std::optional<Event> try_fence(std::uint64_t) override { return consumer().record(); }
  Event fence_all(bool) override { return consumer().record(); }

  Stream& consumer() {
    if (!consumer_) consumer_ = make_stream();
    return *consumer_;
  }

 private:
  std::unique_ptr<Stream> consumer_;
};

struct Case {
  std::string name;
  HostOrder order;
};

class SlotsOnDevice : public ::testing::TestWithParam<Case> {
 protected:
  SlotsOnDevice() { slots->allocate(device->device_memory(), kBytes, 2 * kBytes); }

  // A batch of that value, as an engine writes it, which the consumer reads late into a buffer of its own.
  void batch_read_late(int value) {
    auto loan = popped(*slots, value);
    ASSERT_NE(loan, nullptr);
    write(*loan, value);
    read_.emplace_back(device->pinned_memory(), kBytes);
    values_.push_back(value);
    device->consumer().copy(read_.back().bytes(), loan->memory());
    loan->used_on_some_stream();
  }
  void write(SlotLoan& loan, int value) {
    for (const Event& used : loan.ready()) engine->wait(used);
    engine->fill(loan.memory(), static_cast<std::byte>(value));
    engine->record().wait();  // a batch is whole when the consumer has it
  }
  // Every order of work that is still legal gets its chance; then all reads must have seen their batch.
  void expect_right() {
    {
      const HostBuffer all(device->device_memory(), 1);
    }  // whose end runs everything
    for (std::size_t i = 0; i < read_.size(); ++i)
      for (const std::byte byte : read_[i].bytes()) ASSERT_EQ(byte, static_cast<std::byte>(values_[i])) << i;
  }

  const std::shared_ptr<ConsumedDevice> device = std::make_shared<ConsumedDevice>(GetParam().order);
  const std::shared_ptr<Slots> slots = std::make_shared<Slots>(1, device, [] {});
  const std::unique_ptr<Stream> engine = device->make_stream();

 private:
  std::vector<HostBuffer> read_;
  std::vector<int> values_;
};

TEST_P(SlotsOnDevice, a_slot_is_written_again_behind_its_last_read) {
  slots->add();
  for (int value = 1; value < 40; ++value) batch_read_late(value);
  expect_right();
}

TEST_P(SlotsOnDevice, a_batch_that_failed_passes_on_what_its_slot_waits_for) {
  for (int value = 1; value < 40; ++value) {
    batch_read_late(value);
    slots->lend(value).reset();  // nothing was written
  }
  expect_right();
}

TEST_P(SlotsOnDevice, memory_of_a_dropped_slot_is_freed_after_its_last_read) {
  for (int round = 0; round < 5; ++round) {
    ASSERT_EQ(slots->add(), Slots::Growth::added);
    {
      const auto elsewhere = popped(*slots, 0);
      batch_read_late(10 + round);  // in the added slot
    }
    for (std::uint64_t i = 0; i < Slots::kIdleBatches; ++i) popped(*slots, 0);
    ASSERT_EQ(slots->drop_idle(), 1u);
  }
  expect_right();
}

TEST_P(SlotsOnDevice, memory_of_added_slots_is_freed_after_its_last_read_at_the_end) {
  slots->add();
  slots->add();
  const auto first = popped(*slots, 0);
  batch_read_late(1);
  auto last = popped(*slots, 2);
  slots->retire();
  last->used_on_some_stream();
  last.reset();
  expect_right();
}

INSTANTIATE_TEST_SUITE_P(Orders, SlotsOnDevice,
                         ::testing::Values(Case{"eager", {HostOrder::Kind::eager, 0}},
                                           Case{"lazy", {HostOrder::Kind::lazy, 0}},
                                           Case{"random1", {HostOrder::Kind::random, 1}},
                                           Case{"random2", {HostOrder::Kind::random, 2}},
                                           Case{"random3", {HostOrder::Kind::random, 3}}),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace damacy
