// Array::read: elements of every kind as they are, and what it says when it cannot.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <vector>

#include "damacy/core/formatted.h"
#include "damacy/single/array_read.h"
#include "damacy/store/memory_store.h"
#include "damacy/zarr/array.h"
#include "support/error_of.h"

namespace damacy {
namespace {

// (3, 3) elements in chunks of (2, 2), big-endian, chunk (1, 1) missing.
std::string document(std::string_view type, std::string_view fill) {
  return formatted(R"({{"zarr_format": 3, "node_type": "array", "shape": [3, 3], "data_type": {}, )"
                   R"("fill_value": {}, "chunk_grid": {{"name": "regular", "configuration": {{"chunk_shape": [2, )"
                   R"(2]}}}}, "chunk_key_encoding": {{"name": "default"}}, "codecs": [{{"name": "bytes", )"
                   R"("configuration": {{"endian": "big"}}}}]}})",
                   type, fill);
}

template <class Scalar>
std::string big_endian(std::vector<Scalar> scalars) {
  std::string bytes;
  for (const Scalar scalar : scalars) {
    char raw[sizeof scalar];
    std::memcpy(raw, &scalar, sizeof scalar);
    if (std::endian::native == std::endian::little) std::reverse(raw, raw + sizeof scalar);
    bytes.append(raw, sizeof scalar);
  }
  return bytes;
}

std::shared_ptr<const Array> array_of(std::string zarr_json, std::string chunk) {
  auto store = std::make_shared<MemoryStore>("a");
  store->put("zarr.json", zarr_json);
  for (const char* key : {"c/0/0", "c/0/1", "c/1/0"}) store->put(key, chunk);
  return open_array("a", store);
}

template <class T>
std::vector<T> all_of(const Array& array) {
  std::vector<T> out(9);
  array.read({{0, 0}, {3, 3}}, std::as_writable_bytes(std::span(out)));
  return out;
}

TEST(ArrayRead, complex_elements_are_swapped_by_part_and_fill_where_missing) {
  const auto array =
      array_of(document(R"("complex64")", R"([1.5,"NaN"])"), big_endian<float>({1, 2, 3, 4, 5, 6, 7, 8}));
  const auto read = all_of<std::complex<float>>(*array);
  using C = std::complex<float>;
  EXPECT_EQ(std::vector(read.begin(), read.begin() + 8),
            (std::vector<C>{{1, 2}, {3, 4}, {1, 2}, {5, 6}, {7, 8}, {5, 6}, {1, 2}, {3, 4}}));
  EXPECT_EQ(read[8].real(), 1.5f);
  EXPECT_TRUE(std::isnan(read[8].imag()));
}

TEST(ArrayRead, times_are_their_integers) {
  const auto array =
      array_of(document(R"({"name":"numpy.datetime64","configuration":{"unit":"us","scale_factor":10}})", R"("NaT")"),
               big_endian<std::int64_t>({1, -2, 3, 4}));
  EXPECT_EQ(all_of<std::int64_t>(*array),
            (std::vector<std::int64_t>{1, -2, 1, 3, 4, 3, 1, -2, std::numeric_limits<std::int64_t>::min()}));
}

TEST(ArrayRead, a_bool_keeps_its_byte) {
  const auto array = array_of(document(R"("bool")", "true"), std::string("\0\1\7\0", 4));
  EXPECT_EQ(all_of<std::uint8_t>(*array), (std::vector<std::uint8_t>{0, 1, 0, 7, 0, 7, 0, 1, 1}));
}

TEST(ArrayRead, a_part_is_row_major_by_itself) {
  const auto array = array_of(document(R"("int16")", "9"), big_endian<std::int16_t>({1, 2, 3, 4}));
  std::vector<std::int16_t> out(4);
  array->read({{1, 1}, {3, 3}}, std::as_writable_bytes(std::span(out)));
  EXPECT_EQ(out, (std::vector<std::int16_t>{4, 3, 2, 9}));
  array->read({{1, 1}, {1, 3}}, {});
}

TEST(ArrayRead, errors_say_what_and_where) {
  const auto array = array_of(document(R"("int16")", "9"), "short");
  std::vector<std::byte> out(18);
  const auto reason_of = [&](Box box, std::size_t bytes) {
    return error_of([&] { array->read(box, std::span(out).first(bytes)); }).where().reason;
  };
  EXPECT_EQ(reason_of({{0, 0}, {3, 4}}, 18), "aabb");
  EXPECT_EQ(reason_of({{0}, {3}}, 6), "aabb");
  EXPECT_EQ(reason_of({{0, 0}, {3, 3}}, 17), "aabb");
  const Error error = error_of([&] { array->read({{0, 2}, {1, 3}}, std::span(out).first(2)); });
  EXPECT_EQ(error.where().reason, "short-read");
  EXPECT_EQ(error.where().store, "a");
  EXPECT_EQ(error.where().key, "c/0/1");
  EXPECT_EQ(error.where().chunk, (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(error.where().byte_range, (std::pair<std::uint64_t, std::uint64_t>{0, 8}));
  EXPECT_EQ(error.where().uri, "a");
}

// A shard of two chunks, of which the first is missing and the second is `chunk` of 6 bytes.
std::string shard(std::string_view chunk) {
  return formatted("{}{}{}{}", chunk, std::string(16, '\xff'), std::string(8, '\0'),
                   std::string_view("\6\0\0\0\0\0\0\0", 8));
}

// Shards of 4 elements in chunks of 2 with a checksum.
std::shared_ptr<MemoryStore> shards() {
  auto store = std::make_shared<MemoryStore>("a");
  store->put("zarr.json", R"({"zarr_format": 3, "node_type": "array", "shape": [10], "data_type": "uint8",
      "fill_value": 9, "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
      "chunk_key_encoding": {"name": "default"},
      "codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [2], "index_location": "end",
        "codecs": [{"name": "bytes"}, {"name": "crc32c"}],
        "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}}]})");
  for (const char* key : {"c/0", "c/1"}) store->put(key, shard("\1\2\x52\x9f\xf8\x03"));
  return store;
}

TEST(ArrayRead, a_box_may_touch_several_shards_and_missing_ones) {
  std::vector<std::uint8_t> out(9);
  open_array("a", shards())->read({{1}, {10}}, std::as_writable_bytes(std::span(out)));
  EXPECT_EQ(out, (std::vector<std::uint8_t>{9, 1, 2, 9, 9, 1, 2, 9, 9}));
}

TEST(ArrayRead, a_chunk_that_does_not_decode_is_named_with_its_bytes) {
  const auto store = shards();
  store->put("c/1", shard("\1\3\x52\x9f\xf8\x03"));
  std::vector<std::byte> out(10);
  const Error error = error_of([&] { open_array("a", store)->read({{0}, {10}}, out); });
  EXPECT_EQ(error.status(), Status::decode);
  EXPECT_EQ(error.where().key, "c/1");
  EXPECT_TRUE(error.where().key_is_shard);
  EXPECT_EQ(error.where().chunk, (std::vector<std::int64_t>{3}));
  EXPECT_EQ(error.where().byte_range, (std::pair<std::uint64_t, std::uint64_t>{0, 6}));
}

TEST(ArrayRead, a_missing_chunk_is_an_error_where_chunks_may_be_nested) {
  const auto store = std::make_shared<MemoryStore>("a");
  store->put(".zarray", R"({"zarr_format": 2, "shape": [2, 2], "chunks": [1, 1], "dtype": "|u1", "compressor": null,
      "filters": null, "fill_value": 0, "order": "C"})");
  store->put("0/1", "x");
  std::vector<std::byte> out(4);
  const Error error = error_of([&] { open_array("a", store)->read({{0, 0}, {2, 2}}, out); });
  EXPECT_EQ(error.where().reason, "dimension-separator");
  EXPECT_EQ(error.where().key, ".zarray");
}

TEST(ArrayRead, an_array_without_axes_has_one_element) {
  const auto store = std::make_shared<MemoryStore>("a");
  store->put(".zarray", R"({"zarr_format": 2, "shape": [], "chunks": [], "dtype": ">i2", "compressor": null,
      "filters": null, "fill_value": 0, "order": "C"})");
  store->put("0", big_endian<std::int16_t>({-5}));
  std::int16_t element = 0;
  open_array("a", store)->read({}, std::as_writable_bytes(std::span(&element, 1)));
  EXPECT_EQ(element, -5);
}

TEST(ArrayRead, stretches_take_any_indices_of_each_axis) {
  const auto array = array_of(document(R"("int16")", "7"), big_endian<std::int16_t>({1, 2, 3, 4}));
  std::vector<std::int16_t> out(8);
  const auto bytes = std::as_writable_bytes(std::span(out));
  const std::vector<std::vector<AxisStretch>> axes{{{0, 2, 2}}, {{2, 1, 1}, {0, 0, 2}, {1, 1, 1}}};
  read_stretches(*array, axes, bytes);
  EXPECT_EQ(out, (std::vector<std::int16_t>{1, 1, 1, 2, 7, 1, 1, 2}));
  const std::vector<std::vector<AxisStretch>> none{{{0, 1, 3}}, {}};
  read_stretches(*array, none, {});
}

TEST(ArrayRead, stretches_outside_the_array_are_refused) {
  const auto array = array_of(document(R"("int16")", "7"), "");
  std::vector<std::byte> out(12);
  const auto refused = [&](AxisStretch stretch) {
    const std::vector<std::vector<AxisStretch>> axes{{stretch}, {{0, 1, 3}}};
    return error_of([&] { read_stretches(*array, axes, out); }).message();
  };
  EXPECT_EQ(refused({0, 3, 2}), "aabb axis 0: 2 indices from 0 in steps of 3 are not inside an axis of 3 elements");
  EXPECT_EQ(refused({-1, 1, 2}), "aabb axis 0: 2 indices from -1 in steps of 1 are not inside an axis of 3 elements");
  EXPECT_EQ(refused({0, 1, 3}), "the elements have 18 bytes and the output 12");
}

TEST(ArrayRead, a_stopped_read_is_an_error) {
  const auto array = array_of(document(R"("int16")", "7"), big_endian<std::int16_t>({1, 2, 3, 4}));
  std::vector<std::byte> out(18);
  std::stop_source stop;
  stop.request_stop();
  const std::vector<std::vector<AxisStretch>> axes{{{0, 1, 3}}, {{0, 1, 3}}};
  EXPECT_EQ(error_of([&] { read_stretches(*array, axes, out, stop.get_token()); }).status(), Status::shutdown);
}

}  // namespace
}  // namespace damacy
