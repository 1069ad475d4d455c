// Device arrays' queue on host devices that work late: each copy is of what was there when it was asked for, and in
// order with others' work.
#include "damacy/copy/device_queue.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "damacy/device/host_device.h"
#include "fakes/shallow_copier.h"

namespace damacy {
namespace {

class QueueOnDevice : public ::testing::TestWithParam<HostOrder::Kind> {
 protected:
  static BlockCopy bytes(std::int64_t count) {
    BlockCopy copy;
    copy.op = {Dtype::u8, Dtype::u8, false};
    copy.rank = 1;
    copy.axes[0] = {count, 1, 1};
    return copy;
  }
  static std::uint64_t at(const HostBuffer& buffer) { return reinterpret_cast<std::uint64_t>(buffer.data()); }
  static void expect_all(std::span<const std::byte> found, int value) {
    EXPECT_TRUE(std::ranges::all_of(found, [&](std::byte b) { return b == static_cast<std::byte>(value); }));
  }

  std::shared_ptr<Device> device = make_host_device({.kind = GetParam(), .seed = 4});
  DeviceQueue queue{device, make_host_copier()};
  HostBuffer a = queue.allocate(500), b = queue.allocate(500);
};

TEST_P(QueueOnDevice, copies_up_and_down_are_complete_on_return) {
  std::vector<std::byte> host(500, std::byte{3}), back(500);
  queue.upload(a.bytes(), host);
  std::ranges::fill(host, std::byte{4});  // the caller's again
  queue.download(back, a.bytes());
  expect_all(back, 3);
}

TEST_P(QueueOnDevice, a_copy_is_not_described_anew_before_it_was_made) {
  queue.upload(a.bytes(), std::vector<std::byte>(500, std::byte{1}));
  queue.upload(b.bytes(), std::vector<std::byte>(500, std::byte{2}));
  queue.copy(bytes(100), a.bytes(), at(b));
  queue.copy(bytes(50), a.bytes(), at(b) + 200);
  queue.record().wait();
  expect_all(b.bytes().first(100), 1);
  expect_all(b.bytes().subspan(100, 100), 2);
  expect_all(b.bytes().subspan(200, 50), 1);
  expect_all(b.bytes().subspan(250), 2);
}

TEST_P(QueueOnDevice, work_that_it_waits_for_comes_first) {
  queue.upload(b.bytes(), std::vector<std::byte>(500, std::byte{2}));
  const auto producer = device->make_stream();
  producer->fill(a.bytes(), std::byte{6});
  const Event made = producer->record();
  queue.wait_for(made);
  queue.copy(bytes(500), a.bytes(), at(b));
  queue.record().wait();
  expect_all(b.bytes(), 6);
}

// A transpose of 12 axes of two elements, which a copier like this takes in portions.
TEST_P(QueueOnDevice, copies_of_many_axes_are_made_in_portions) {
  DeviceQueue shallow(device, std::make_unique<testing::ShallowCopier>());
  const HostBuffer in = shallow.allocate(1 << 12), out = shallow.allocate(1 << 12);
  std::vector<std::byte> elements(1 << 12), wanted(1 << 12), found(1 << 12);
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<std::byte>(i * 7 + i / 251);
  BlockCopy transpose;
  transpose.rank = 12;
  for (int i = 0; i < 12; ++i) transpose.axes[static_cast<std::size_t>(i)] = {2, 1 << i, 1 << (11 - i)};
  run_block_copy(transpose, elements, wanted);
  shallow.upload(in.bytes(), elements);
  shallow.copy(transpose, in.bytes(), at(out));
  shallow.download(found, out.bytes());
  EXPECT_EQ(found, wanted);
}

INSTANTIATE_TEST_SUITE_P(Devices, QueueOnDevice, ::testing::Values(HostOrder::Kind::lazy, HostOrder::Kind::random),
                         [](const auto& chosen) { return chosen.param == HostOrder::Kind::lazy ? "lazy" : "random"; });

}  // namespace
}  // namespace damacy
