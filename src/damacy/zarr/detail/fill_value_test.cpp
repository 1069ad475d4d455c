#include "damacy/zarr/detail/fill_value.h"

#include <gtest/gtest.h>

#include <string>

#include "damacy/core/formatted.h"
#include "support/documents.h"

namespace damacy {
namespace {

using for_tests::accepted;
using for_tests::refusal_of;
using for_tests::wrong;

FillBytes parsed(std::string_view fill, Dtype dtype, int zarr_format = 3) {
  const auto document = json::Document::parse(formatted("{{\"fill_value\":{}}}", fill), json::Form::plain);
  return parse_fill_value(document.root().at("fill_value"), dtype, zarr_format);
}

// The element's bytes as one big-endian number in hex, as a person writes bits; `at` for halves of complex numbers.
std::string bits(std::string_view fill, Dtype dtype, int zarr_format = 3, std::size_t at = 0) {
  const FillBytes bytes = parsed(fill, dtype, zarr_format);
  constexpr char kHex[] = "0123456789abcdef";
  std::string hex;
  for (std::size_t i = 0; i < scalar_size_of(dtype); ++i) {
    const std::size_t place = std::endian::native == std::endian::little ? scalar_size_of(dtype) - 1 - i : i;
    const auto byte = static_cast<unsigned>(bytes[at + place]);
    hex += kHex[byte >> 4];
    hex += kHex[byte & 15];
  }
  return hex;
}

void expect_refused(std::string_view fill, Dtype dtype, int zarr_format = 3) {
  EXPECT_EQ(refusal_of([&] { parsed(fill, dtype, zarr_format); }), wrong("fill-value", "/fill_value"))
      << fill << " of type " << name_of(dtype);
}

TEST(FillValue, integers_fill_their_type_to_its_ends) {
  EXPECT_EQ(bits("-128", Dtype::i8), "80");
  EXPECT_EQ(bits("127", Dtype::i8), "7f");
  EXPECT_EQ(bits("255", Dtype::u8), "ff");
  EXPECT_EQ(bits("-32768", Dtype::i16), "8000");
  EXPECT_EQ(bits("65535", Dtype::u16), "ffff");
  EXPECT_EQ(bits("-2147483648", Dtype::i32), "80000000");
  EXPECT_EQ(bits("4294967295", Dtype::u32), "ffffffff");
  EXPECT_EQ(bits("-9223372036854775808", Dtype::i64), "8000000000000000");
  EXPECT_EQ(bits("9223372036854775807", Dtype::i64), "7fffffffffffffff");
  EXPECT_EQ(bits("18446744073709551615", Dtype::u64), "ffffffffffffffff");
  EXPECT_EQ(bits("-1", Dtype::i64), "ffffffffffffffff");
}

TEST(FillValue, integers_may_be_written_with_point_and_exponent) {
  EXPECT_EQ(bits("0.0", Dtype::i16), "0000");
  EXPECT_EQ(bits("-0.0", Dtype::u16), "0000");
  EXPECT_EQ(bits("1e2", Dtype::u8), "64");
  EXPECT_EQ(bits("-1.28E2", Dtype::i8), "80");
}

TEST(FillValue, refuses_integers_out_of_range_and_what_is_no_integer) {
  expect_refused("-129", Dtype::i8);
  expect_refused("128", Dtype::i8);
  expect_refused("-1", Dtype::u8);
  expect_refused("256", Dtype::u8);
  expect_refused("65536", Dtype::u16);
  expect_refused("9223372036854775808", Dtype::i64);
  expect_refused("-9223372036854775809", Dtype::i64);
  expect_refused("18446744073709551616", Dtype::u64);
  for (const std::string_view fill :
       {"1.5", "\"NaN\"", "NaN", "Infinity", "-Infinity", "true", "null", "[]", "{}", "1e-1", "1e99"})
    expect_refused(fill, Dtype::i32);
}

// n5-zarr writes every fill value as a text.
TEST(FillValue, numbers_may_be_texts) {
  EXPECT_EQ(bits("\"0\"", Dtype::u8, 2), "00");
  EXPECT_EQ(bits("\"-32768\"", Dtype::i16), "8000");
  EXPECT_EQ(bits("\"18446744073709551615\"", Dtype::u64, 2), "ffffffffffffffff");
  EXPECT_EQ(bits("\"0\"", Dtype::f32, 2), "00000000");
  EXPECT_EQ(bits("\"-0\"", Dtype::f32, 2), "80000000");
  EXPECT_EQ(bits("\"1.5\"", Dtype::f64), "3ff8000000000000");
  EXPECT_EQ(bits("\"-2e0\"", Dtype::f16), "c000");
}

TEST(FillValue, refuses_texts_that_are_no_number_of_the_type) {
  for (const std::string_view fill : {"\"\"", "\"32768\"", "\"1.0\"", "\"1e2\"", "\" 1\"", "\"1 \"", "\"+1\"", "\"01\"",
                                      "\"0x10\"", "\"1_0\"", "\"-\"", "\"a\"", "\"1\\u0000\""})
    expect_refused(fill, Dtype::i16, 2);
  expect_refused("\"0\"", Dtype::boolean, 2);
  expect_refused("\"0\"", Dtype::datetime64, 2);
}

TEST(FillValue, bare_words_mean_what_the_texts_mean) {
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::f64})
    for (const std::string word : {"NaN", "Infinity", "-Infinity"})
      EXPECT_EQ(bits(word, dtype), bits('"' + word + '"', dtype)) << word << " of type " << name_of(dtype);
  EXPECT_EQ(bits("[NaN,-Infinity]", Dtype::complex64), "7fc00000");
  EXPECT_EQ(bits("[NaN,-Infinity]", Dtype::complex64, 3, 4), "ff800000");
  expect_refused("NaN", Dtype::boolean, 2);
  expect_refused("NaN", Dtype::timedelta64);
}

TEST(FillValue, quotes_what_it_refuses) {
  const auto said = [](std::string_view fill, Dtype dtype) {
    try {
      parsed(fill, dtype);
    } catch (const Error& e) {
      return e.message();
    }
    return std::string();
  };
  EXPECT_EQ(said("\"1.0\"", Dtype::i16), "fill value \"1.0\" of type int16: not an integer in the type's range");
  EXPECT_EQ(said("1.5", Dtype::i16), "fill value 1.5 of type int16: not an integer in the type's range");
  EXPECT_EQ(said("true", Dtype::f32), "fill value true of type float32: not a float");
}

TEST(FillValue, floats_have_names_for_what_numbers_cannot_say) {
  EXPECT_EQ(bits("\"NaN\"", Dtype::f16), "7e00");
  EXPECT_EQ(bits("\"NaN\"", Dtype::bf16), "7fc0");
  EXPECT_EQ(bits("\"NaN\"", Dtype::f32), "7fc00000");
  EXPECT_EQ(bits("\"NaN\"", Dtype::f64), "7ff8000000000000");
  EXPECT_EQ(bits("\"Infinity\"", Dtype::f16), "7c00");
  EXPECT_EQ(bits("\"-Infinity\"", Dtype::bf16), "ff80");
  EXPECT_EQ(bits("\"-Infinity\"", Dtype::f32), "ff800000");
  EXPECT_EQ(bits("\"Infinity\"", Dtype::f64), "7ff0000000000000");
}

TEST(FillValue, hex_is_kept_to_the_bit) {
  EXPECT_EQ(bits("\"0x7fc00001\"", Dtype::f32), "7fc00001");
  EXPECT_EQ(bits("\"0xFFC00aBc\"", Dtype::f32), "ffc00abc");
  EXPECT_EQ(bits("\"0x7f81\"", Dtype::bf16), "7f81");
  EXPECT_EQ(bits("\"0xfe01\"", Dtype::f16), "fe01");
  EXPECT_EQ(bits("\"0x7ff0000000000001\"", Dtype::f64), "7ff0000000000001");
}

TEST(FillValue, floats_keep_the_sign_of_zero_but_of_the_integer) {
  EXPECT_EQ(bits("-0.0", Dtype::f32), "80000000");
  EXPECT_EQ(bits("-0e0", Dtype::f64), "8000000000000000");
  EXPECT_EQ(bits("-0", Dtype::f32), "00000000");
  EXPECT_EQ(bits("-0.0", Dtype::f16), "8000");
  EXPECT_EQ(bits("1", Dtype::bf16), "3f80");
  EXPECT_EQ(bits("16777217", Dtype::f32), "4b800000");
}

TEST(FillValue, refuses_other_floats) {
  for (const std::string_view fill : {"\"nan\"",
                                      "\"inf\"",
                                      "\"+Infinity\"",
                                      "\"0x7fc0000\"",
                                      "\"0x7fc000000\"",
                                      "\"0X7fc00000\"",
                                      "\"0x7fc0000g\"",
                                      "\"0x-fc00000\"",
                                      "\"0x+fc00000\"",
                                      "\"0x 7fc0000\"",
                                      "\"\"",
                                      "\"0x\"",
                                      "\"1.5.\"",
                                      "\"1e39\"",
                                      "true",
                                      "null",
                                      "[0]",
                                      "{}",
                                      "1e39",
                                      "3.5e38"})
    expect_refused(fill, Dtype::f32);
  for (const std::string_view fill : {"\"Infinity \"", "\"+Infinity\"", "\"0x7ff8\""}) expect_refused(fill, Dtype::f64);
}

TEST(FillValue, booleans) {
  EXPECT_EQ(bits("true", Dtype::boolean), "01");
  EXPECT_EQ(bits("false", Dtype::boolean), "00");
  EXPECT_EQ(bits("1", Dtype::boolean, 2), "01");
  EXPECT_EQ(bits("0", Dtype::boolean, 2), "00");
  expect_refused("1", Dtype::boolean);
  for (const std::string_view fill : {"0", "2", "\"true\"", "null"}) expect_refused(fill, Dtype::boolean);
  expect_refused("2", Dtype::boolean, 2);
  expect_refused("\"true\"", Dtype::boolean, 2);
}

TEST(FillValue, complex_numbers_are_two_floats) {
  EXPECT_EQ(bits("[-0.0,\"0x7fc00001\"]", Dtype::complex64), "80000000");
  EXPECT_EQ(bits("[-0.0,\"0x7fc00001\"]", Dtype::complex64, 3, 4), "7fc00001");
  EXPECT_EQ(bits("[\"NaN\",1]", Dtype::complex128, 3, 8), "3ff0000000000000");
  for (const std::string_view fill : {"0", "[0]", "[0,0,0]", "\"NaN\"", "null"}) expect_refused(fill, Dtype::complex64);
  EXPECT_EQ(refusal_of([] { parsed("[0,\"x\"]", Dtype::complex64); }), wrong("fill-value", "/fill_value/1"));
}

TEST(FillValue, times_are_integers_or_no_time) {
  EXPECT_EQ(bits("\"NaT\"", Dtype::datetime64), "8000000000000000");
  EXPECT_EQ(bits("-9223372036854775808", Dtype::datetime64), "8000000000000000");
  EXPECT_EQ(bits("5", Dtype::timedelta64), "0000000000000005");
  expect_refused("\"NaN\"", Dtype::timedelta64);
  expect_refused("null", Dtype::datetime64);
}

TEST(FillValue, null_is_zero_in_v2_and_refused_in_v3) {
  for (int i = 0; i <= static_cast<int>(Dtype::complex128); ++i) {
    EXPECT_EQ(parsed("null", static_cast<Dtype>(i), 2), FillBytes{});
    expect_refused("null", static_cast<Dtype>(i));
  }
  EXPECT_EQ(bits("null", Dtype::datetime64, 2), "8000000000000000");
  EXPECT_EQ(bits("null", Dtype::timedelta64, 2), "8000000000000000");
}

}  // namespace
}  // namespace damacy
