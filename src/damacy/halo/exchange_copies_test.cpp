// Which copies an exchange makes: between which arrays and messages. The tests of Exchanger run them.
#include "damacy/halo/exchange_copies.h"

#include <gtest/gtest.h>

#include "damacy/halo/exchanger.h"
#include "support/error_of.h"

namespace damacy::halo {
namespace {

ExchangePlanPtr plan_of(std::size_t fields, std::int64_t ranks) {
  const std::vector<QuantityHaloSpec> specs(fields, dense_field({"i"}, {4}, 1));
  const Cartesian grid({{Integers(static_cast<std::size_t>(ranks), 4)}, {true}, Corners::direct});
  return compile(specs, grid, {"i"}, 0, std::int64_t{1});
}

TEST(ExchangeCopies, exchanges_in_flight_have_messages_of_their_own) {
  ExchangeCopies copies(*plan_of(1, 2), 2);
  ASSERT_EQ(copies.phases(), 1u);
  EXPECT_EQ(copies.send_bytes(0).size(), 1u);
  for (const int slot : {0, 1}) {
    const auto base = 0x10000u * static_cast<std::uint64_t>(slot + 1);
    copies.set_messages(slot, 0, {base}, {base + 0x1000});
  }
  const auto first = copies.of(0, {0x100}), second = copies.of(1, {0x100});
  EXPECT_EQ(*first->at(0).pack.bases, (Addresses{0x100, 0x10000}));
  EXPECT_EQ(*first->at(0).unpack.bases, (Addresses{0x100, 0x11000}));
  EXPECT_EQ(*second->at(0).pack.bases, (Addresses{0x100, 0x20000}));
  EXPECT_EQ(copies.of(0, {0x100}), first);
}

TEST(ExchangeCopies, those_of_the_latest_arrays_are_kept) {
  ExchangeCopies copies(*plan_of(1, 2), 1);
  copies.set_messages(0, 0, {0x10000}, {0x11000});
  const auto first = copies.of(0, {0x100});
  for (std::uint64_t n = 1; n < 32; ++n) (void)copies.of(0, {0x100 * n + 0x100});
  EXPECT_EQ(copies.of(0, {0x100}), first);
  for (std::uint64_t n = 1; n < 40; ++n) (void)copies.of(0, {0x100 * n + 0x100});
  EXPECT_NE(copies.of(0, {0x100}), first);
  EXPECT_EQ(*first->at(0).pack.bases, (Addresses{0x100, 0x10000}));
}

TEST(ExchangeCopies, a_rank_alone_has_nothing_to_unpack) {
  ExchangeCopies copies(*plan_of(1, 1), 1);
  copies.set_messages(0, 0, {}, {});
  EXPECT_NE(copies.of(0, {0x100})->at(0).pack.plan, nullptr);
  EXPECT_EQ(copies.of(0, {0x100})->at(0).unpack.plan, nullptr);
}

TEST(ExchangeCopies, arrays_that_overlap_are_refused) {
  ExchangeCopies copies(*plan_of(2, 2), 1);
  copies.set_messages(0, 0, {0x10000}, {0x11000});
  EXPECT_NO_THROW((void)copies.of(0, {0x100, 0x200}));
  const Error error = error_of([&] { (void)copies.of(0, {0x100, 0x100}); });
  EXPECT_NE(error.message().find("overlap"), std::string::npos) << error.message();
}

TEST(ExchangePlan, arrays_have_the_layout_of_their_fields) {
  const auto plan = plan_of(1, 2);
  EXPECT_NO_THROW(plan->check_array(0, Dtype::f64, {6}, {8}));
  EXPECT_EQ(error_of([&] { plan->check_array(0, Dtype::f32, {6}, {8}); }).message(),
            "array 0 has dtype float32, expected float64");
  EXPECT_EQ(error_of([&] { plan->check_array(0, Dtype::f64, {6}, {16}); }).message(),
            "array 0 has shape (6,), strides (16,), expected (6,), (8,)");
  EXPECT_EQ(error_of([&] { plan->check_count(2); }).message(), "Quantities count: 2 for 1 fields");
}

}  // namespace
}  // namespace damacy::halo
