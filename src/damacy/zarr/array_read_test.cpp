// Array::read: elements of every kind as they are, and what it says when it cannot.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <vector>

#include "damacy/store/memory_store.h"
#include "damacy/zarr/array.h"
#include "damacy/zarr/detail/for_tests.h"
#include "damacy/zarr/metadata.h"

namespace damacy {
namespace {

using namespace for_tests;

// (3, 3) elements in chunks of (2, 2), big-endian, chunk (1, 1) missing.
std::string document(std::string type, std::string fill) {
  return v3_document({{"shape", "[3,3]"},
                      {"data_type", type},
                      {"fill_value", fill},
                      {"chunk_grid", R"({"name":"regular","configuration":{"chunk_shape":[2,2]}})"},
                      {"codecs", R"([{"name":"bytes","configuration":{"endian":"big"}}])"}});
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
    return refusal_of([&] { array->read(box, std::span(out).first(bytes)); }).reason;
  };
  EXPECT_EQ(reason_of({{0, 0}, {3, 4}}, 18), "aabb");
  EXPECT_EQ(reason_of({{0}, {3}}, 6), "aabb");
  EXPECT_EQ(reason_of({{0, 0}, {3, 3}}, 17), "aabb");
  try {
    array->read({{0, 2}, {1, 3}}, std::span(out).first(2));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.where().reason, "short-read");
    EXPECT_EQ(e.where().key, "c/0/1");
    EXPECT_EQ(e.where().chunk, (std::vector<std::int64_t>{0, 1}));
    EXPECT_EQ(e.where().uri, "a");
  }
}

}  // namespace
}  // namespace damacy
