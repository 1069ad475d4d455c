// Copies of a batch come after what its consumers have queued. On a lazy device work happens when it is waited for, so
// a copy that does not wait has the bytes of before.
#include <cstring>
#include <memory>

#include <gtest/gtest.h>

#include "damacy/batch/batch.h"
#include "damacy/batch/slots.h"
#include "damacy/device/dlpack_abi.h"
#include "damacy/device/host_device.h"
#include "support/forwarding_device.h"

namespace damacy {
namespace {

constexpr std::size_t kBytes = 64;
constexpr std::byte kBefore{1};
constexpr std::byte kAfter{9};

constexpr Batch::Export kToHost{.copy = false, .to_host = true, .stream = {}};
constexpr Batch::Export kOnDevice{.copy = true, .to_host = false, .stream = {}};

// A lazy device with one stream of a consumer's. Fences stand for that stream's work.
class ConsumedDevice final : public testing::ForwardingDevice {
 public:
  ConsumedDevice() : ForwardingDevice(make_host_device({.kind = HostOrder::Kind::lazy})) {}
  std::optional<Event> try_fence(std::uint64_t) override {
    ++fences_of_one;
    if (capturing) return std::nullopt;
    return consumer->record();
  }
  Event fence_all(bool spare_captures) override {
    ++fences_of_all;
    spared = spare_captures;
    if (!spare_captures) return consumer->record();
    return Event(std::make_shared<ForHost>(consumer->record()));
  }

  const std::unique_ptr<Stream> consumer = make_stream();
  bool capturing = false;
  bool spared = false;
  int fences_of_one = 0, fences_of_all = 0;

 private:
  // As a fence during a capture: streams cannot wait for it.
  class ForHost final : public Event::State {
   public:
    explicit ForHost(Event event) : event_(std::move(event)) {}
    bool ready() override { return event_.ready(); }
    bool wait(std::stop_token stop) override { return event_.wait(stop); }
    std::optional<double> ms_since(Event::State&) override { return std::nullopt; }
    bool for_streams() const noexcept override { return false; }

   private:
    Event event_;
  };
};

class CopiesOfABatch : public ::testing::Test {
 protected:
  CopiesOfABatch() {
    slots_->allocate(std::make_shared<PageAlloc>(), kBytes);
    loan_ = slots_->lend(0);
    std::memset(loan_->memory().data(), std::to_integer<int>(kBefore), kBytes);
  }
  ~CopiesOfABatch() override { device_->consumer->record().wait(); }  // what is left of it writes to the slot
  Batch batch() {
    BatchInfo info;
    info.device_ptr = reinterpret_cast<std::uintptr_t>(loan_->memory().data());
    info.shape.push_back(static_cast<std::int64_t>(kBytes));
    info.dtype = Dtype::u8;
    return Batch({{"", info}}, device_, loan_, {true}, {0});
  }
  void queue_work_of_the_consumer() { device_->consumer->fill(loan_->memory(), kAfter); }
  static std::byte first_of(const Batch& batch, const Batch::Export& how) {
    DLManagedTensor* const tensor = batch.to_dlpack(how);
    const std::byte first = *static_cast<const std::byte*>(tensor->dl_tensor.data);
    tensor->deleter(tensor);
    return first;
  }
  static void view(const Batch& batch, std::optional<std::uint64_t> stream) {
    DLManagedTensor* const tensor = batch.to_dlpack(Batch::Export{.copy = false, .to_host = false, .stream = stream});
    tensor->deleter(tensor);
  }

  const std::shared_ptr<ConsumedDevice> device_ = std::make_shared<ConsumedDevice>();
  const std::shared_ptr<Slots> slots_ = std::make_shared<Slots>(1, device_, [] {});
  std::shared_ptr<SlotLoan> loan_;
};

TEST_F(CopiesOfABatch, to_the_host_come_after_work_of_a_stream_that_a_view_was_exported_to) {
  const Batch exported = batch();
  view(exported, 77);
  queue_work_of_the_consumer();
  EXPECT_EQ(first_of(exported, kToHost), kAfter);
  EXPECT_EQ(device_->fences_of_all, 1);
}

TEST_F(CopiesOfABatch, on_the_device_do_so_too) {
  const Batch exported = batch();
  view(exported, Batch::kAnyStream);
  queue_work_of_the_consumer();
  EXPECT_EQ(first_of(exported, kOnDevice), kAfter);
}

TEST_F(CopiesOfABatch, come_after_work_of_the_legacy_stream_with_an_event_of_that_stream_alone) {
  const Batch exported = batch();
  view(exported, {});
  queue_work_of_the_consumer();
  EXPECT_EQ(first_of(exported, kToHost), kAfter);
  EXPECT_EQ(device_->fences_of_one, 1);
  EXPECT_EQ(device_->fences_of_all, 0);
}

TEST_F(CopiesOfABatch, wait_on_the_host_while_a_graph_is_being_captured) {
  device_->capturing = true;
  const Batch exported = batch();
  view(exported, 1);
  queue_work_of_the_consumer();
  EXPECT_EQ(first_of(exported, kToHost), kAfter);
  EXPECT_TRUE(device_->spared);
}

TEST_F(CopiesOfABatch, of_a_batch_that_nothing_was_exported_from_wait_for_nothing) {
  const Batch exported = batch();
  queue_work_of_the_consumer();
  EXPECT_EQ(first_of(exported, kToHost), kBefore);
  EXPECT_EQ(device_->fences_of_one + device_->fences_of_all, 0);
}

}  // namespace
}  // namespace damacy
