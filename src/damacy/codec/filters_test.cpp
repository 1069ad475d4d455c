// Filters by element against values that NumPy gave.
#include "damacy/codec/filters.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "damacy/codec/chain.h"
#include "damacy/codec/checksums.h"

namespace damacy {
namespace {

constexpr bool kBig = std::endian::native == std::endian::big;

StoredType native(Dtype dtype) {
  return {dtype, kBig};
}

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T), std::byte{0});
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T>
std::vector<T> values_of(const std::vector<std::byte>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

template <class To, class From>
std::vector<To> cast(Dtype from, Dtype to, const std::vector<From>& values) {
  std::vector<std::byte> out(values.size() * sizeof(To), std::byte{0xa5});
  EXPECT_TRUE(decode_cast({native(to), native(from)}, bytes_of(values), out).ok());
  return values_of<To>(out);
}

template <class To, class From>
std::vector<To> summed(Dtype from, Dtype to, const std::vector<From>& values) {
  std::vector<std::byte> out(values.size() * sizeof(To), std::byte{0xa5});
  EXPECT_TRUE(decode_delta({native(to), native(from)}, bytes_of(values), out).ok());
  return values_of<To>(out);
}

const double kNan = std::numeric_limits<double>::quiet_NaN();
const double kInfinity = std::numeric_limits<double>::infinity();

TEST(Filters, integers_wrap) {
  EXPECT_EQ((cast<std::uint8_t, std::int16_t>(Dtype::i16, Dtype::u8, {-1, 256, 511})),
            (std::vector<std::uint8_t>{255, 0, 255}));
  EXPECT_EQ((cast<std::int64_t, std::uint64_t>(Dtype::u64, Dtype::i64, {~0ull})), (std::vector<std::int64_t>{-1}));
  EXPECT_EQ((cast<std::int32_t, std::int8_t>(Dtype::i8, Dtype::i32, {-128})), (std::vector<std::int32_t>{-128}));
}

TEST(Filters, floats_are_cut_to_integers_and_what_does_not_fit_is_numpys) {
  const std::vector<double> values{1.9,  -1.9, 300.7, -300.7, 70000.5,   3e9,
                                   -3e9, 1e19, -1e19, kNan,   kInfinity, -kInfinity};
  EXPECT_EQ((cast<std::int8_t>(Dtype::f64, Dtype::i8, values)),
            (std::vector<std::int8_t>{1, -1, 44, -44, 112, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ((cast<std::uint16_t>(Dtype::f64, Dtype::u16, values)),
            (std::vector<std::uint16_t>{1, 65535, 300, 65236, 4464, 0, 0, 0, 0, 0, 0, 0}));
  constexpr std::int32_t kLow = std::numeric_limits<std::int32_t>::min();
  EXPECT_EQ((cast<std::int32_t>(Dtype::f64, Dtype::i32, values)),
            (std::vector<std::int32_t>{1, -1, 300, -300, 70000, kLow, kLow, kLow, kLow, kLow, kLow, kLow}));
  EXPECT_EQ((cast<std::uint32_t>(Dtype::f64, Dtype::u32, values)),
            (std::vector<std::uint32_t>{1, 4294967295, 300, 4294966996, 70000, 3000000000, 0x80000000, 0, 0x80000000,
                                        0x80000000, 0, 0x80000000}));
  constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ((cast<std::int64_t>(Dtype::f64, Dtype::i64, values)),
            (std::vector<std::int64_t>{1, -1, 300, -300, 70000, 3000000000, -3000000000, kLowest, kLowest, kLowest,
                                       kLowest, kLowest}));
  EXPECT_EQ((cast<std::uint64_t, double>(Dtype::f64, Dtype::u64, {1e19, kNan, 2e19, -2.0})),
            (std::vector<std::uint64_t>{10000000000000000000u, 0x8000000000000000u, 0, 0xfffffffffffffffeu}));
}

TEST(Filters, floats_round_to_nearest_even) {
  EXPECT_EQ(
      (cast<std::uint16_t, double>(Dtype::f64, Dtype::f16, {1.5, 65504, 65520, 2049, 2051, 1 + 0x1p-11 + 0x1p-40})),
      (std::vector<std::uint16_t>{0x3e00, 0x7bff, 0x7c00, 0x6800, 0x6802, 0x3c01}));
  EXPECT_EQ((cast<float, std::int32_t>(Dtype::i32, Dtype::f32, {16777217, 16777219})),
            (std::vector<float>{16777216, 16777220}));
  EXPECT_EQ((cast<double, std::uint16_t>(Dtype::f16, Dtype::f64, {0x3e00, 0x0001, 0xfc00})),
            (std::vector<double>{1.5, 0x1p-24, -kInfinity}));
}

TEST(Filters, payloads_of_nans_are_kept_as_far_as_they_fit) {
  EXPECT_EQ((cast<std::uint16_t, std::uint64_t>(Dtype::f64, Dtype::f16, {0xfff8040000000000u, 0x7ff8000000000001u})),
            (std::vector<std::uint16_t>{0xfe01, 0x7e00}));
  EXPECT_EQ((cast<std::uint64_t, std::uint16_t>(Dtype::f16, Dtype::f64, {0xfe01})),
            (std::vector<std::uint64_t>{0xfff8040000000000u}));
}

TEST(Filters, a_bool_is_any_byte_but_zero) {
  EXPECT_EQ((cast<std::int16_t, std::uint8_t>(Dtype::boolean, Dtype::i16, {0, 1, 7})),
            (std::vector<std::int16_t>{0, 1, 1}));
  EXPECT_EQ((cast<std::uint8_t, double>(Dtype::f64, Dtype::boolean, {0.0, -0.0, 0.1, kNan})),
            (std::vector<std::uint8_t>{0, 0, 1, 1}));
}

TEST(Filters, both_sides_may_be_in_the_other_byte_order) {
  const std::vector<std::byte> in{std::byte{0x01}, std::byte{0x02}};
  std::vector<std::byte> out(4);
  ASSERT_TRUE(decode_cast({{Dtype::u32, false}, {Dtype::u16, true}}, in, out).ok());
  EXPECT_EQ(out, (std::vector<std::byte>{std::byte{2}, std::byte{1}, std::byte{0}, std::byte{0}}));
}

TEST(Filters, a_delta_sums_in_the_decoded_type) {
  EXPECT_EQ((summed<std::int16_t, std::int8_t>(Dtype::i8, Dtype::i16, {100, 100, -5})),
            (std::vector<std::int16_t>{100, 200, 195}));
  EXPECT_EQ((summed<std::uint8_t, std::uint8_t>(Dtype::u8, Dtype::u8, {200, 100, 255})),
            (std::vector<std::uint8_t>{200, 44, 43}));
  EXPECT_EQ((summed<double, float>(Dtype::f32, Dtype::f64, {1, 0x1p-25f, 0x1p-25f})),
            (std::vector<double>{1, 1 + 0x1p-25, 1 + 0x1p-24}));
  EXPECT_EQ((summed<std::uint16_t, std::uint16_t>(Dtype::f16, Dtype::f16, {0x6800, 0x3c00, 0x3c00})),
            (std::vector<std::uint16_t>{0x6800, 0x6800, 0x6800}));  // 2048 + 1 rounds to even, twice
  EXPECT_TRUE(std::signbit(summed<float, float>(Dtype::f32, Dtype::f32, {-0.0f})[0]));
}

TEST(Filters, scale_and_offset_are_applied_in_the_encoded_float_type) {
  const auto scaled = [](Dtype encoded, Dtype decoded, const auto& values, auto out_value) {
    std::vector<std::byte> out(values.size() * sizeof out_value);
    EXPECT_TRUE(
        decode_scaled({native(decoded), native(encoded)}, {.scale = 10, .offset = 0.1}, bytes_of(values), out).ok());
    return values_of<decltype(out_value)>(out);
  };
  EXPECT_EQ(scaled(Dtype::i16, Dtype::f64, std::vector<std::int16_t>{3, -7}, double{}),
            (std::vector<double>{3 / 10.0 + 0.1, -7 / 10.0 + 0.1}));
  EXPECT_EQ(scaled(Dtype::f32, Dtype::f32, std::vector<float>{3}, float{}), (std::vector<float>{3 / 10.0f + 0.1f}));
  EXPECT_EQ(scaled(Dtype::u8, Dtype::i8, std::vector<std::uint8_t>{255}, std::int8_t{}),
            (std::vector<std::int8_t>{25}));
}

TEST(Filters, refuse_what_is_no_whole_number_of_elements_or_of_another_size) {
  std::vector<std::byte> three(3), four(4), two(2);
  const FilterTypes types{native(Dtype::u16), native(Dtype::u16)};
  EXPECT_EQ(decode_cast(types, three, four).status, DecodeStatus::size);
  EXPECT_EQ(decode_delta(types, four, two).status, DecodeStatus::size);
  EXPECT_EQ(decode_scaled(types, {}, two, four).status, DecodeStatus::size);
  EXPECT_EQ(decode_shuffle(2, three, three).status, DecodeStatus::size);
  EXPECT_EQ(decode_shuffle(2, four, two).status, DecodeStatus::size);
  EXPECT_EQ(decode_cast({native(Dtype::complex64), native(Dtype::u8)}, {}, {}).status, DecodeStatus::unsupported);
}

TEST(Filters, packed_bits_become_bytes_of_0_and_1) {
  const auto bytes = [](std::initializer_list<int> values) {
    std::vector<std::byte> made;
    for (const int value : values) made.push_back(static_cast<std::byte>(value));
    return made;
  };
  std::vector<std::byte> out(11, std::byte{0xaa});
  ASSERT_TRUE(decode_packbits(bytes({5, 0x90, 0x7f}), out).ok());
  EXPECT_EQ(out, bytes({1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(decode_packbits(bytes({4, 0x90, 0x7f}), out).status, DecodeStatus::frame);
  EXPECT_EQ(decode_packbits(bytes({5, 0x90}), out).status, DecodeStatus::size);
  EXPECT_EQ(decode_packbits(bytes({}), out).status, DecodeStatus::size);
  const CodecChain chain({{.id = CodecId::packbits, .name = "packbits"}});
  EXPECT_EQ(chain.fixed_encoded_size(16), 3u);
  EXPECT_EQ(chain.fixed_encoded_size(17), 4u);
  EXPECT_EQ(chain.fixed_encoded_size(0), 1u);
}

TEST(Filters, packed_bits_within_something_of_unknown_size_say_how_many_they_are) {
  const CodecChain chain({{.id = CodecId::packbits, .name = "packbits"}});
  DecodeContext context;
  std::span<const std::byte> decoded;
  const std::vector<std::byte> packed{std::byte{5}, std::byte{0x90}, std::byte{0x7f}};
  ASSERT_TRUE(chain.decode_all(packed, 100, context, decoded).ok());
  EXPECT_EQ(decoded.size(), 11u);
  std::vector<std::byte> bad = packed;
  bad[0] = std::byte{9};
  EXPECT_EQ(chain.decode_all(bad, 100, context, decoded).status, DecodeStatus::frame);
  EXPECT_FALSE(chain.decode_all({}, 100, context, decoded).ok());
}

TEST(Filters, a_shuffle_may_have_elements_of_any_width) {
  std::vector<std::byte> in(600), out(600);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::byte>(i * 7);
  ASSERT_TRUE(decode_shuffle(300, in, out).ok());
  EXPECT_EQ(out[0], in[0]);
  EXPECT_EQ(out[300], in[1]);
  EXPECT_EQ(out[299], in[598]);
}

TEST(Filters, a_shuffle_of_elements_of_no_or_one_byte_changes_nothing) {
  const std::vector<std::byte> in(7, std::byte{5});
  for (const std::uint64_t width : {0u, 1u}) {
    std::vector<std::byte> out(7);
    EXPECT_TRUE(decode_shuffle(width, in, out).ok());
    EXPECT_EQ(out, in);
    CodecSpec codec{.id = CodecId::shuffle, .name = "shuffle"};
    codec.shuffle_width = width;
    EXPECT_EQ(codec.encoded_size(7), 7u);
  }
}

TEST(Checksums, give_the_check_values_of_the_digits) {
  const std::string_view digits = "123456789";
  EXPECT_EQ(crc32(std::as_bytes(std::span(digits))), 0xcbf43926u);
  EXPECT_EQ(adler32(std::as_bytes(std::span(digits))), 0x091e01deu);
}

// Elements 1, 2, 3 as steps of 1, shuffled, with an Adler-32 in front and a CRC-32 behind.
TEST(CodecChain, filters_and_checksums_compose) {
  const StoredType u16{Dtype::u16, false};
  const CodecChain chain({{.id = CodecId::delta, .name = "delta", .types = {u16, u16}},
                          {.id = CodecId::shuffle, .name = "shuffle", .shuffle_width = 2},
                          {.id = CodecId::adler32, .checksum_at_start = true, .name = "adler32"},
                          {.id = CodecId::crc32, .name = "crc32"}});
  EXPECT_TRUE(chain.fixed_size());
  EXPECT_EQ(chain.fixed_encoded_size(6), 14u);
  EXPECT_EQ(chain.largest_stage(6), 14u);
  EXPECT_EQ(chain.largest_stage(5), std::nullopt);
  std::vector<std::byte> encoded{std::byte{1}, std::byte{1}, std::byte{1}, std::byte{0}, std::byte{0}, std::byte{0}};
  const auto put = [](std::vector<std::byte>& bytes, std::size_t at, std::uint32_t sum) {
    for (int i = 3; i >= 0; --i)
      bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), static_cast<std::byte>(sum >> (8 * i)));
  };
  put(encoded, 0, adler32(encoded));
  put(encoded, encoded.size(), crc32(encoded));
  DecodeContext context;
  std::vector<std::byte> out(6, std::byte{0xa5});
  const std::vector<ByteRange> all{{0, 6}};
  ASSERT_TRUE(chain.decode(encoded, out, all, context).ok());
  const std::vector<std::byte> expected{std::byte{1}, std::byte{0}, std::byte{2},
                                        std::byte{0}, std::byte{3}, std::byte{0}};
  EXPECT_EQ(out, expected);
  for (std::size_t i = 0; i < encoded.size(); ++i) {
    auto bad = encoded;
    bad[i] ^= std::byte{1};
    EXPECT_EQ(chain.decode(bad, out, all, context).status, DecodeStatus::checksum) << i;
  }
}

}  // namespace
}  // namespace damacy
