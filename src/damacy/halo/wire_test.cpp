// Wires made by C++ users. Python's tests compare every byte with index formulas.
#include "damacy/halo/wire.h"

#include <gtest/gtest.h>

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

TEST(Wire, boxes_stay_in_their_fields) {
  const Message message{{{{0, {{0, 0}, {3, 3}}}, {}, 0, false}}, Wire::ndsl};
  EXPECT_THROW(compile(std::span(&kField, 1), std::span(&message, 1), {}, Direction::pack), Error);
}

}  // namespace
}  // namespace damacy::halo
