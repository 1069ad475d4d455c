// Messages that have two places, on the lazy host device.
#include "damacy/halo/message_memory.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "damacy/device/host_device.h"
#include "damacy/halo/exchanger.h"

namespace damacy::halo {
namespace {

ExchangePlanPtr plan_of() {
  const Cartesian grid({{Integers{4, 4}}, {true}, Corners::direct});
  return compile({dense_field({"i"}, {4}, 1, Dtype::i64)}, grid, {"i"}, 0, std::int64_t{1});
}

std::size_t count_of(std::span<const std::byte> bytes, std::byte value) {
  return static_cast<std::size_t>(std::count(bytes.begin(), bytes.end(), value));
}

TEST(ExchangeMemory, messages_are_copied_between_their_two_places) {
  const auto device = make_host_device({HostOrder::Kind::lazy});
  const auto plan = plan_of();
  ExchangeCopies copies(*plan, 2);
  ExchangeMemory memory(*plan, copies, 2, {device, false});
  const Rounds spans = memory.spans();
  ASSERT_EQ(spans.size(), 2u);
  const auto stream = device->make_stream();
  RoundMemory& round = memory.at(1, 0);
  MessageMemory& sent = round.send.at(1);
  EXPECT_EQ(spans[1][0].send.at(1).data(), sent.host.data());
  EXPECT_EQ(copies.of(1, {0x100})->at(0).pack.bases->back(), sent.packed_at());
  stream->fill(sent.device.bytes(), std::byte{7});
  EXPECT_TRUE(download(*stream, round));
  EXPECT_EQ(count_of(sent.host.bytes(), std::byte{0}), sent.host.size());
  stream->record().wait();
  EXPECT_EQ(count_of(sent.host.bytes(), std::byte{7}), sent.host.size());
  MessageMemory& received = round.receive.at(1);
  std::fill(received.host.bytes().begin(), received.host.bytes().end(), std::byte{9});
  upload(*stream, round);
  EXPECT_FALSE(round.uploaded.ready());
  round.uploaded.wait();
  EXPECT_EQ(count_of(received.device.bytes(), std::byte{9}), received.device.size());
  RoundMemory empty;
  upload(*stream, empty);
  EXPECT_FALSE(download(*stream, empty));
  EXPECT_TRUE(empty.uploaded.ready());
}

TEST(ExchangeMemory, a_transport_that_takes_device_memory_has_no_copies) {
  const auto device = make_host_device();
  const auto plan = plan_of();
  ExchangeCopies copies(*plan, 1);
  ExchangeMemory memory(*plan, copies, 1, {device, true});
  const MessageMemory& sent = memory.at(0, 0).send.at(1);
  EXPECT_EQ(sent.host.size(), 0u);
  EXPECT_EQ(memory.spans()[0][0].send.at(1).data(), sent.device.data());
}

TEST(ExchangeMemory, what_a_transport_may_still_use_is_kept) {
  const auto plan = plan_of();
  ExchangeCopies copies(*plan, 1);
  std::span<std::byte> bytes;
  {
    ExchangeMemory memory(*plan, copies, 1, {});
    bytes = memory.spans()[0][0].send.at(1);
    std::move(memory).keep_forever();
  }
  std::fill(bytes.begin(), bytes.end(), std::byte{1});  // freed memory would fault
}

}  // namespace
}  // namespace damacy::halo
