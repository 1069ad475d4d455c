// Wires made by C++ users. Python's tests compare every byte with index formulas.
#include "damacy/halo/wire.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "damacy/core/error.h"

namespace damacy::halo {
namespace {

const Field kField{Dtype::i32, {2, 3}, {12, 4}, /*i_axis=*/1, /*j_axis=*/0};
const Box kAll{{0, 0}, {2, 3}};

std::uint64_t address(std::vector<std::int32_t>& values) {
  return reinterpret_cast<std::uint64_t>(values.data());
}

std::vector<std::int32_t> packed(int rotation) {
  const Message message{{{{0, kAll}, {}, rotation, false}}, Wire::ndsl};
  const auto compiled = compile(std::span(&kField, 1), std::span(&message, 1), {}, Direction::pack);
  std::vector<std::int32_t> field{0, 1, 2, 3, 4, 5}, buffer(6);
  copy::run(*compiled.plan, std::vector{address(field), address(buffer)});
  return buffer;
}

TEST(Wire, the_packer_undoes_the_turn_of_the_way) {
  EXPECT_EQ(packed(0), (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(packed(1), (std::vector<std::int32_t>{3, 0, 4, 1, 5, 2}));
  EXPECT_EQ(packed(2), (std::vector<std::int32_t>{5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(packed(3), (std::vector<std::int32_t>{2, 5, 1, 4, 0, 3}));
  EXPECT_EQ(packed(-3), packed(1));
}

TEST(Wire, components_change_places_and_signs_with_the_axes) {
  const std::vector<Field> fields(2, kField);
  const Message message{{{{0, kAll}, FieldBox{1, kAll}, 1, false}}, Wire::ndsl};
  const auto compiled = compile(fields, std::span(&message, 1), {}, Direction::pack);
  std::vector<std::int32_t> x{0, 1, 2, 3, 4, 5}, y{10, 11, 12, 13, 14, 15}, buffer(12);
  copy::run(*compiled.plan, std::vector{address(x), address(y), address(buffer)});
  EXPECT_EQ(buffer, (std::vector<std::int32_t>{-13, -10, -14, -11, -15, -12, 3, 0, 4, 1, 5, 2}));
}

TEST(Wire, native_blocks_begin_at_16_bytes) {
  const Message message{{{{0, kAll}, {}, 0, false}, {{0, kAll}, {}, 0, false}}, Wire::native};
  const auto compiled = compile(std::span(&kField, 1), std::span(&message, 1), {}, Direction::pack);
  EXPECT_EQ(compiled.buffer_bytes, std::vector<std::int64_t>{32 + 24});
}

TEST(Wire, what_was_packed_unpacks_and_the_transposed_plan_adds) {
  const Message message{{{{0, kAll}, {}, 0, false}}, Wire::ndsl};
  const auto unpack = compile(std::span(&kField, 1), std::span(&message, 1), {}, Direction::unpack);
  const auto add = compile(std::span(&kField, 1), std::span(&message, 1), {}, Direction::pack, /*adjoint=*/true);
  std::vector<std::int32_t> field(6), buffer{1, 2, 3, 4, 5, 6};
  copy::run(*unpack.plan, std::vector{address(field), address(buffer)});
  copy::run(*add.plan, std::vector{address(field), address(buffer)});
  EXPECT_EQ(field, (std::vector<std::int32_t>{2, 4, 6, 8, 10, 12}));
}

// <P x, y> = <x, P' y> in integers, for the transposed plan P'.
TEST(Wire, packing_and_its_transpose_have_one_inner_product) {
  using Numbers = std::vector<std::int64_t>;
  const std::vector<Field> fields(2, Field{Dtype::i64, {7, 6}, {48, 8}, /*i_axis=*/1, /*j_axis=*/0});
  std::mt19937 random(3);
  const auto numbers = [&](std::size_t count) {
    Numbers out;
    while (out.size() < count) out.push_back(static_cast<std::int64_t>(random() % 19) - 9);
    return out;
  };
  const auto address_of = [](Numbers& some) { return reinterpret_cast<std::uint64_t>(some.data()); };
  const auto product = [](const Numbers& a, const Numbers& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), std::int64_t{0});
  };
  for (int r = 0; r < 4; ++r) {
    const Message message{{{{0, {{1, 1}, {5, 4}}}, FieldBox{1, {{2, 2}, {6, 5}}}, r, false},
                           {{0, {{2, 0}, {5, 4}}}, FieldBox{1, {{0, 1}, {3, 5}}}, r + 1, false}},
                          r % 2 == 1 ? Wire::native : Wire::ndsl};
    const auto forward = compile(fields, std::span(&message, 1), {}, Direction::pack);
    const auto back = compile(fields, std::span(&message, 1), {}, Direction::pack, /*adjoint=*/true);
    Numbers x0 = numbers(42), x1 = numbers(42);
    Numbers px(static_cast<std::size_t>(forward.buffer_bytes.at(0)) / 8), y = numbers(px.size());
    Numbers back0(42), back1(42);
    copy::run(*forward.plan, std::vector{address_of(x0), address_of(x1), address_of(px)});
    copy::run(*back.plan, std::vector{address_of(back0), address_of(back1), address_of(y)});
    EXPECT_EQ(product(px, y), product(x0, back0) + product(x1, back1)) << r;
  }
}

TEST(Wire, boxes_stay_in_their_fields) {
  const Message message{{{{0, {{0, 0}, {3, 3}}}, {}, 0, false}}, Wire::ndsl};
  EXPECT_THROW(compile(std::span(&kField, 1), std::span(&message, 1), {}, Direction::pack), Error);
}

}  // namespace
}  // namespace damacy::halo
