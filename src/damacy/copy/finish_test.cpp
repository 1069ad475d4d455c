// Elements that are finished, against the words of finish.h one element at a time.
#include "damacy/copy/finish.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "damacy/copy/detail/finish_copy.h"
#include "support/random_finish.h"
#include "support/random_placements.h"

namespace damacy {
namespace {

using copy_cuda::testing::Draw;
using testing::random_bits;
using testing::random_finish;
using testing::value_of;

std::uint64_t copied(std::uint64_t bits, const CopyOp& op) {
  std::uint64_t result = 0;
  BlockCopy copy;
  copy.op = op;
  run_block_copy(copy, std::as_bytes(std::span(&bits, 1)).first(size_of(op.from)),
                 std::as_writable_bytes(std::span(&result, 1)).first(size_of(op.to)));
  return result;
}

template <class T>
std::uint64_t bits_of(T value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

std::uint64_t computed_in_double(const Finish& finish, double x, Dtype to) {
  const auto scaled_by = [](double value, double scale, double offset) {
    const volatile double product = value * scale;
    const volatile double sum = product + offset;
    return sum;
  };
  if (finish.is_packed) x = scaled_by(x, finish.unpack_scale, finish.unpack_offset);
  const double sum = finish.is_scaled ? scaled_by(x, finish.scale, finish.offset) : x;
  double y = std::isnan(sum) ? std::numeric_limits<double>::quiet_NaN() : sum;
  if (!is_narrow(to))
    return copied(bits_of(finish.is_rounded && !is_float(to) ? std::nearbyint(y) : y), {Dtype::f64, to});
  float z = static_cast<float>(y);
  if (finish.is_rounded && !is_float(to)) z = std::nearbyint(z);
  return copied(bits_of(z), {Dtype::f32, to});
}

std::uint64_t computed_in_float(const Finish& finish, float x, Dtype to) {
  const volatile float product = x * static_cast<float>(finish.scale);
  const volatile float sum = product + static_cast<float>(finish.offset);
  float y = std::isnan(sum) ? std::numeric_limits<float>::quiet_NaN() : sum;
  if (finish.is_rounded && !is_float(to)) y = std::nearbyint(y);
  return copied(bits_of(y), {Dtype::f32, to});
}

std::uint64_t finished_one(const Finish& finish, std::uint64_t bits, Dtype from, Dtype to) {
  if (finish.is_constant) return finish.replacement;
  for (std::uint32_t i = 0; i < finish.missing_count; ++i)
    if (finish.missing[i] == bits) return finish.replacement;
  const long double value = from == Dtype::boolean ? static_cast<long double>(bits != 0) : value_of(bits, from);
  if (finish.is_missing_nan && std::isnan(value)) return finish.replacement;
  std::uint64_t result;
  if (finish.is_scaled || finish.is_packed)
    result = finish.is_wide ? computed_in_double(finish, static_cast<double>(value), to)
                            : computed_in_float(finish, static_cast<float>(value), to);
  else if (finish.is_rounded && is_float(from) && !is_float(to))
    result = copied(bits_of(std::nearbyint(static_cast<double>(value))), {Dtype::f64, to});
  else
    result = copied(bits, {from, to});
  if (finish.has_low && value_of(result, to) <= value_of(finish.low, to)) result = finish.low;
  if (finish.has_high && value_of(result, to) >= value_of(finish.high, to)) result = finish.high;
  return result;
}

class FinishedCopy : public ::testing::TestWithParam<int> {};

// A box of three axes, turned round and with gaps, larger than what is computed at a time.
TEST_P(FinishedCopy, has_every_element_as_it_is_by_itself) {
  const auto from = static_cast<Dtype>(GetParam());
  for (int type = 0; type < kBatchDtypes; ++type)
    for (std::uint64_t seed = 0; seed < 12 && !HasFailure(); ++seed) {
      const auto to = static_cast<Dtype>(type);
      Draw draw(seed * 1000 + static_cast<std::uint64_t>(type * 20 + GetParam()));
      const Finish finish = random_finish(draw, from, to);
      const std::int64_t a = draw.from(1, 6), b = draw.from(1, 40), c = draw.from(1, 60);
      const auto in = static_cast<std::int64_t>(size_of(from)), out = static_cast<std::int64_t>(size_of(to));
      std::vector<std::byte> src(static_cast<std::size_t>(a * b * c * in));
      for (std::int64_t i = 0; i < a * b * c; ++i) {
        const bool is_missing = finish.missing_count > 0 && draw.one_in(5);
        const std::uint64_t bits = is_missing ? finish.missing[0] : random_bits(draw, from);
        std::memcpy(src.data() + i * in, &bits, static_cast<std::size_t>(in));
      }
      BlockCopy copy;
      copy.op = {from, to, false, &finish};
      copy.rank = 3;
      const bool turned = draw.one_in(2);
      copy.axes[0] = {a, b * c * in, out * (b * c + 3)};
      copy.axes[1] = {b, c * in, turned ? out : out * c};
      copy.axes[2] = {c, in, turned ? out * b : out};
      const BlockCopy stated = copy;
      normalise(copy);
      std::vector<std::byte> dst(static_cast<std::size_t>(a * out * (b * c + 3)), std::byte{0x5a});
      auto isas = {copy_detail::Isa::plain, copy_detail::Isa::avx2, copy_detail::Isa::avx512};
      for (const auto isa : isas) {
        if (!copy_detail::is_supported(isa)) continue;
        std::ranges::fill(dst, std::byte{0x5a});
        copy_detail::execute_finished(copy, src.data(), dst.data(), {isa, seed % 2 == 0});
        for (std::int64_t i = 0; i < a * b * c && !HasFailure(); ++i) {
          const std::int64_t at[] = {i / (b * c), i / c % b, i % c};
          std::uint64_t bits = 0, got = 0;
          std::int64_t place = 0;
          for (int k = 0; k < 3; ++k) place += at[k] * stated.axes[k].dst_stride;
          std::memcpy(&bits, src.data() + i * in, static_cast<std::size_t>(in));
          std::memcpy(&got, dst.data() + place, static_cast<std::size_t>(out));
          ASSERT_EQ(got, finished_one(finish, bits, from, to))
              << name_of(from) << " to " << name_of(to) << ", seed " << seed << ", bits " << bits << ", scaled "
              << finish.is_scaled << finish.is_wide << finish.is_rounded;
        }
        for (std::int64_t row = 0; row < a; ++row)
          for (std::int64_t k = b * c * out; k < (b * c + 3) * out; ++k)
            ASSERT_EQ(dst[static_cast<std::size_t>(row * out * (b * c + 3) + k)], std::byte{0x5a});
      }
    }
}

INSTANTIATE_TEST_SUITE_P(From, FinishedCopy, ::testing::Range(0, kBatchDtypes),
                         [](const auto& of) { return std::string(name_of(static_cast<Dtype>(of.param))); });

TEST(FinishKernel, is_there_for_what_is_common) {
  using copy_detail::finish_kernel, copy_detail::Isa;
  const auto in_one_pass = [](Dtype from, Dtype to, const Finish& finish, bool swaps = false) {
    return finish_kernel({from, to, swaps, &finish}, Isa::plain) != nullptr;
  };
  const Finish scaled{.scale = 0.5, .is_scaled = true, .has_low = true};
  Finish unpacked{.missing = {7}, .missing_count = 1, .is_packed = true, .is_scaled = true, .is_wide = true};
  EXPECT_TRUE(in_one_pass(Dtype::u16, Dtype::f32, scaled));
  EXPECT_TRUE(in_one_pass(Dtype::i16, Dtype::f32, unpacked));
  EXPECT_FALSE(in_one_pass(Dtype::u16, Dtype::f32, scaled, true)) << "bytes are swapped";
  EXPECT_FALSE(in_one_pass(Dtype::u16, Dtype::bf16, scaled));
  unpacked.missing_count = 3;
  EXPECT_FALSE(in_one_pass(Dtype::i16, Dtype::f32, unpacked));
  EXPECT_FALSE(in_one_pass(Dtype::i16, Dtype::f32, Finish{.has_low = true})) << "nothing is computed";
}

float finished_f32(std::uint64_t bits, Dtype from, const Finish& finish) {
  return bits_as<float>(static_cast<std::uint32_t>(copied(bits, {from, Dtype::f32, false, &finish})));
}

TEST(FinishedElement, is_multiplied_and_added_to_with_a_rounding_each) {
  Finish finish{.scale = 0x1.000002p0, .offset = -0x1.000002p0, .is_scaled = true};
  // Fused, the low bits of the product would survive the sum.
  EXPECT_EQ(finished_f32(bits_of(0x1.000002p0f), Dtype::f32, finish), 0x1.000004p0f - 0x1.000002p0f);
  finish = {.scale = 0x1p-149, .offset = 0, .is_scaled = true};
  EXPECT_EQ(finished_f32(3, Dtype::u8, finish), 0x1.8p-148f) << "subnormals are kept";
}

TEST(FinishedElement, of_an_operation_without_a_value_is_the_plain_nan) {
  const Finish finish{.scale = 0, .offset = 0, .is_scaled = true};
  const auto result = finished_f32(bits_of(-std::numeric_limits<float>::infinity()), Dtype::f32, finish);
  EXPECT_EQ(bits_as<std::uint32_t>(result), 0x7fc00000u);
  EXPECT_EQ(bits_as<std::uint32_t>(finished_f32(0xffc01234u, Dtype::f32, finish)), 0x7fc00000u);
}

TEST(FinishedElement, at_a_bound_is_the_bound_with_its_sign) {
  Finish finish{.low = 0, .has_low = true};
  EXPECT_EQ(bits_as<std::uint32_t>(finished_f32(0x80000000u, Dtype::f32, finish)), 0u);
  EXPECT_TRUE(std::isnan(finished_f32(0x7fc00000u, Dtype::f32, finish)));
}

TEST(FinishedElement, that_is_a_tie_becomes_even) {
  const Finish nearest{.is_rounded = true};
  for (const auto& [value, wanted] : {std::pair{0.5f, 0u}, {1.5f, 2u}, {2.5f, 2u}, {254.5f, 254u}, {255.5f, 255u}})
    EXPECT_EQ(copied(bits_of(value), {Dtype::f32, Dtype::u8, false, &nearest}), wanted) << value;
  EXPECT_EQ(copied(bits_of(2.75f), {Dtype::f32, Dtype::u8}), 2u);
}

}  // namespace
}  // namespace damacy
