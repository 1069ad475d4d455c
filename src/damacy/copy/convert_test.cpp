#include "damacy/copy/convert.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <vector>

namespace damacy {
namespace {

// The conversions once more, slowly: a value is sign * magnitude * 2^exponent in whole numbers, made from the source's
// bits and rounded once into the target's. Shares nothing with convert.h.
namespace exact {

using Wide = unsigned __int128;

struct Value {
  enum Kind { finite, infinite, nan } kind = finite;
  bool negative = false;
  Wide magnitude = 0;
  int exponent = 0;
};

struct FloatFormat {
  int fraction_bits;
  int exponent_bits;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int all_ones() const { return (1 << exponent_bits) - 1; }
};

bool is_float(Dtype type) {
  return static_cast<int>(type) <= static_cast<int>(Dtype::f64);
}

FloatFormat float_format(Dtype type) {
  switch (type) {
    case Dtype::f16:
      return {10, 5};
    case Dtype::bf16:
      return {7, 8};
    case Dtype::f32:
      return {23, 8};
    default:
      return {52, 11};
  }
}

bool is_signed_int(Dtype type) {
  return type == Dtype::i8 || type == Dtype::i16 || type == Dtype::i32 || type == Dtype::i64;
}

int bits_of(Dtype type) {
  return static_cast<int>(size_of(type)) * 8;
}

std::uint64_t low_bits(int count) {
  return count >= 64 ? ~0ull : (1ull << count) - 1;
}

Value decode(Dtype type, std::uint64_t bits) {
  Value v;
  if (type == Dtype::boolean) {
    v.magnitude = bits != 0;
  } else if (is_float(type)) {
    const FloatFormat f = float_format(type);
    const int biased = static_cast<int>(bits >> f.fraction_bits) & f.all_ones();
    v.negative = bits >> (bits_of(type) - 1) & 1;
    v.magnitude = bits & low_bits(f.fraction_bits);
    v.exponent = 1 - f.bias() - f.fraction_bits;
    if (biased == f.all_ones()) {
      v.kind = v.magnitude != 0 ? Value::nan : Value::infinite;
    } else if (biased != 0) {
      v.magnitude += 1ull << f.fraction_bits;
      v.exponent += biased - 1;
    }
  } else {
    v.negative = is_signed_int(type) && (bits >> (bits_of(type) - 1) & 1);
    v.magnitude = v.negative ? (~bits & low_bits(bits_of(type))) + Wide{1} : bits;
  }
  return v;
}

// The magnitude in units of 2^exponent, nearest even.
Wide rounded(const Value& v, int exponent) {
  const int lost = exponent - v.exponent;
  if (lost <= 0) return v.magnitude << -lost;
  if (lost > 100) return 0;
  const Wide kept = v.magnitude >> lost;
  const Wide rest = v.magnitude - (kept << lost);
  const Wide half = Wide{1} << (lost - 1);
  return kept + (rest > half || (rest == half && (kept & 1)) ? 1 : 0);
}

std::uint64_t encode_float(Dtype type, const Value& v) {
  const FloatFormat f = float_format(type);
  const std::uint64_t sign = static_cast<std::uint64_t>(v.negative) << (bits_of(type) - 1);
  const std::uint64_t infinity = static_cast<std::uint64_t>(f.all_ones()) << f.fraction_bits;
  if (v.kind == Value::nan) return sign | infinity | 1ull << (f.fraction_bits - 1);
  if (v.kind == Value::infinite) return sign | infinity;
  if (v.magnitude == 0) return sign;

  int top = v.exponent - 1;
  for (Wide rest = v.magnitude; rest != 0; rest >>= 1) ++top;
  const int smallest = 1 - f.bias() - f.fraction_bits;
  int exponent = top - f.fraction_bits < smallest ? smallest : top - f.fraction_bits;
  Wide significand = rounded(v, exponent);
  if (significand >> (f.fraction_bits + 1) != 0) {
    significand >>= 1;
    ++exponent;
  }
  if (significand >> f.fraction_bits == 0) return sign | static_cast<std::uint64_t>(significand);  // subnormal
  const int biased = exponent + f.fraction_bits + f.bias();
  if (biased >= f.all_ones()) return sign | infinity;
  return sign | static_cast<std::uint64_t>(biased) << f.fraction_bits |
         (static_cast<std::uint64_t>(significand) & low_bits(f.fraction_bits));
}

std::uint64_t encode_int(Dtype type, const Value& v) {
  if (v.kind == Value::nan) return 0;
  const bool is_signed = is_signed_int(type);
  const Wide highest = low_bits(bits_of(type) - (is_signed ? 1 : 0));
  const Wide end = v.negative ? (is_signed ? highest + 1 : 0) : highest;
  Wide whole = 0;
  if (v.kind == Value::infinite || (v.exponent > 63 && v.magnitude != 0))
    whole = end;
  else if (v.exponent >= 0)
    whole = v.magnitude << v.exponent;
  else if (v.exponent > -128)
    whole = v.magnitude >> -v.exponent;
  if (whole > end) whole = end;
  const auto bits = static_cast<std::uint64_t>(v.negative ? Wide{0} - whole : whole);
  return bits & low_bits(bits_of(type));
}

// Elements as the integers of their bits.
std::uint64_t convert(Dtype from, Dtype to, std::uint64_t bits) {
  if (from == to && to != Dtype::boolean) return bits;
  const Value v = decode(from, bits);
  if (to == Dtype::boolean) return v.kind != Value::finite || v.magnitude != 0;
  return is_float(to) ? encode_float(to, v) : encode_int(to, v);
}

}  // namespace exact

using ConvertBits = std::uint64_t (*)(std::uint64_t);

template <Dtype kFrom, Dtype kTo>
std::uint64_t convert_bits(std::uint64_t bits) {
  using From = Element<kFrom>;
  using To = Element<kTo>;
  const auto narrow = static_cast<UnsignedOf<sizeof(From)>>(bits);
  return bits_as<UnsignedOf<sizeof(To)>>(convert<To>(bits_as<From>(narrow)));
}

template <int... kPairs>
constexpr auto make_table(std::integer_sequence<int, kPairs...>) {
  return std::array<ConvertBits, sizeof...(kPairs)>{
      &convert_bits<static_cast<Dtype>(kPairs / kBatchDtypes), static_cast<Dtype>(kPairs % kBatchDtypes)>...};
}
constexpr auto kTable = make_table(std::make_integer_sequence<int, kBatchDtypes * kBatchDtypes>{});

void expect_as_model(Dtype from, Dtype to, std::uint64_t bits) {
  const auto got = kTable[static_cast<std::size_t>(from) * kBatchDtypes + static_cast<std::size_t>(to)](bits);
  const auto wanted = exact::convert(from, to, bits);
  ASSERT_EQ(got, wanted) << name_of(from) << " to " << name_of(to) << " of bits 0x" << std::hex << bits << ": got 0x"
                         << got << ", want 0x" << wanted;
}

// Around every power of two and every place where a shorter type rounds: runs of ones and zeros under a random head.
std::vector<std::uint64_t> interesting_patterns(int bits, std::mt19937_64& random) {
  std::vector<std::uint64_t> patterns;
  const auto add_around = [&](std::uint64_t centre) {
    for (std::uint64_t d : {0ull, 1ull, 2ull, ~0ull, ~1ull}) {
      patterns.push_back((centre + d) & exact::low_bits(bits));
      patterns.push_back(~(centre + d) & exact::low_bits(bits));
    }
  };
  for (int e = 0; e < 2048; ++e) add_around(static_cast<std::uint64_t>(e) << (bits == 64 ? 52 : 23));  // powers of two
  for (int i = 0; i < bits; ++i) {
    add_around(1ull << i);
    for (int j = 0; j < i; ++j) add_around((1ull << i) | (1ull << j));
  }
  for (int i = 0; i < 100000; ++i) {
    const std::uint64_t head = random();
    const auto cut = random() % static_cast<unsigned>(bits);
    const std::uint64_t centre = head >> cut << cut;
    patterns.push_back(head >> random() % 64 & exact::low_bits(bits));
    patterns.push_back((centre + (random() % 3 - 1)) & exact::low_bits(bits));
    patterns.push_back((centre + (1ull << cut >> 1) + (random() % 3 - 1)) & exact::low_bits(bits));
  }
  return patterns;
}

// The middle between neighbouring values of a shorter float, a little less and a little more, in a longer one.
std::vector<std::uint64_t> ties_between(Dtype shorter, Dtype longer) {
  std::vector<std::uint64_t> ties;
  for (std::uint64_t bits = 0; bits < 0x10000; ++bits) {
    const std::uint64_t low = exact::encode_float(longer, exact::decode(shorter, bits));
    const std::uint64_t high = exact::encode_float(longer, exact::decode(shorter, bits + 1));
    const std::uint64_t middle = low + (high - low) / 2;
    for (const std::uint64_t tie : {low, middle - 1, middle, middle + 1}) ties.push_back(tie);
  }
  return ties;
}

class ConvertFrom : public testing::TestWithParam<int> {
 protected:
  Dtype from() const { return static_cast<Dtype>(GetParam()); }
  void expect_all_targets(std::uint64_t bits) {
    for (int to = 0; to < kBatchDtypes; ++to) expect_as_model(from(), static_cast<Dtype>(to), bits);
  }
};

TEST_P(ConvertFrom, agrees_with_whole_number_arithmetic) {
  if (size_of(from()) <= 2) {
    for (std::uint64_t bits = 0; bits >> exact::bits_of(from()) == 0; ++bits) {
      expect_all_targets(bits);
      if (HasFatalFailure()) return;
    }
    return;
  }
  std::mt19937_64 random(7);
  for (const auto bits : interesting_patterns(exact::bits_of(from()), random)) {
    expect_all_targets(bits);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Convert, ConvertFrom, testing::Range(0, kBatchDtypes),
                         [](const auto& test) { return std::string(name_of(static_cast<Dtype>(test.param))); });

TEST(Convert, rounds_ties_of_the_short_floats_to_even) {
  for (const Dtype longer : {Dtype::f32, Dtype::f64})
    for (const Dtype shorter : {Dtype::f16, Dtype::bf16})
      for (const auto bits : ties_between(shorter, longer)) {
        expect_as_model(longer, shorter, bits);
        if (HasFatalFailure()) return;
      }
}

// Literals, so that the model is held to something too.
TEST(Convert, integers_saturate_at_the_ends) {
  EXPECT_EQ(convert<std::uint8_t>(std::int64_t{-1}), 0);
  EXPECT_EQ(convert<std::uint8_t>(std::uint64_t{256}), 255);
  EXPECT_EQ(convert<std::int8_t>(std::uint8_t{128}), 127);
  EXPECT_EQ(convert<std::int8_t>(std::int16_t{-129}), -128);
  EXPECT_EQ(convert<std::uint64_t>(std::int8_t{-1}), 0u);
  EXPECT_EQ(convert<std::int64_t>(~std::uint64_t{0}), INT64_MAX);
}

TEST(Convert, floats_are_cut_off_and_then_saturate) {
  EXPECT_EQ(convert<std::uint8_t>(255.9f), 255);
  EXPECT_EQ(convert<std::uint8_t>(-0.9), 0);
  EXPECT_EQ(convert<std::int8_t>(-128.9f), -128);
  EXPECT_EQ(convert<std::int32_t>(2147483648.0f), INT32_MAX);
  EXPECT_EQ(convert<std::int32_t>(-1.9), -1);
  EXPECT_EQ(convert<std::int64_t>(-__builtin_inff()), INT64_MIN);
  EXPECT_EQ(convert<std::uint64_t>(1e300), UINT64_MAX);
  EXPECT_EQ(convert<std::int16_t>(__builtin_nanf("")), 0);
}

TEST(Convert, long_integers_round_once) {
  // 2^53 + 2^45 + 1 lies just above a tie of bf16; by way of double the last bit, and so the tie's side, is lost.
  EXPECT_EQ(convert<Bf16>((std::int64_t{1} << 53) + (std::int64_t{1} << 45) + 1).bits, 0x5a01);
  EXPECT_EQ(convert<Bf16>((std::int64_t{1} << 53) + (std::int64_t{1} << 45)).bits, 0x5a00);
  EXPECT_EQ(convert<float>((std::int64_t{1} << 54) + (std::int64_t{1} << 30) + 1), 0x1.000002p54f);
  EXPECT_EQ(convert<F16>(std::int32_t{65519}).bits, 0x7bff);
  EXPECT_EQ(convert<F16>(std::int32_t{65520}).bits, 0x7c00);
  EXPECT_EQ(convert<F16>(INT64_MIN).bits, 0xfc00);
}

TEST(Convert, doubles_round_once_to_the_short_floats) {
  EXPECT_EQ(convert<Bf16>(0x1.0100000001p0).bits, 0x3f81);  // by way of f32 a tie, and down to even
  EXPECT_EQ(convert<Bf16>(0x1.01p0).bits, 0x3f80);
  EXPECT_EQ(convert<F16>(0x1.0020000001p0).bits, 0x3c01);
  EXPECT_EQ(convert<F16>(0x1.002p0).bits, 0x3c00);
  EXPECT_EQ(convert<F16>(0x1p-25).bits, 0);
  EXPECT_EQ(convert<F16>(0x1.0000000000001p-25).bits, 1);
  EXPECT_EQ(convert<Bf16>(1e300).bits, 0x7f80);
}

TEST(Convert, a_nan_keeps_its_sign_and_no_payload) {
  EXPECT_EQ(bits_as<std::uint32_t>(convert<float>(bits_as<double>(0xfff0000000000001ull))), 0xffc00000u);
  EXPECT_EQ(bits_as<std::uint64_t>(convert<double>(bits_as<float>(0x7f800123u))), 0x7ff8000000000000ull);
  EXPECT_EQ(convert<F16>(bits_as<float>(0xffffffffu)).bits, 0xfe00);
  EXPECT_EQ(convert<Bf16>(F16{0x7c01}).bits, 0x7fc0);
  EXPECT_EQ(bits_as<std::uint32_t>(convert<float>(bits_as<float>(0x7f800123u))), 0x7f800123u) << "same type: bits";
}

TEST(Convert, any_byte_but_zero_is_true) {
  EXPECT_EQ(convert<Bool>(Bool{0xf0}).byte, 1);
  EXPECT_EQ(convert<std::int64_t>(Bool{2}), 1);
  EXPECT_EQ(convert<F16>(Bool{255}).bits, 0x3c00);
  EXPECT_EQ(convert<Bool>(-0.0f).byte, 0);
  EXPECT_EQ(convert<Bool>(__builtin_nan("")).byte, 1);
  EXPECT_EQ(convert<Bool>(bits_as<float>(1u)).byte, 1);
  EXPECT_EQ(convert<Bool>(std::int64_t{1} << 40).byte, 1);
}

TEST(ByteSwapped, reverses_the_bytes) {
  EXPECT_EQ(byte_swapped(std::uint8_t{0x12}), 0x12);
  EXPECT_EQ(byte_swapped(std::uint16_t{0x1234}), 0x3412);
  EXPECT_EQ(byte_swapped(std::uint32_t{0x12345678}), 0x78563412u);
  EXPECT_EQ(byte_swapped(std::uint64_t{0x0123456789abcdef}), 0xefcdab8967452301u);
}

}  // namespace
}  // namespace damacy
