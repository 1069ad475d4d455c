#include "damacy/device/dlpack_abi.h"

#include <gtest/gtest.h>

#include <string>

#include "damacy/core/formatted.h"

namespace damacy {
namespace {

std::string shown(Dtype type) {
  constexpr const char* kNames[] = {"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
  const DLDataType as = dl_type(type);
  return formatted("{}{}x{}", kNames[as.code], static_cast<int>(as.bits), as.lanes);
}

TEST(DlpackTypes, have_the_codes_of_the_standard) {
  std::string all;
  for (int i = 0; i <= static_cast<int>(Dtype::timedelta64); ++i) all += shown(static_cast<Dtype>(i)) + " ";
  EXPECT_EQ(
      all,
      "float32x1 bfloat16x1 float16x1 float64x1 uint8x1 int8x1 uint16x1 int16x1 uint32x1 int32x1 uint64x1 int64x1 "
      "bool8x1 complex64x1 complex128x1 int64x1 int64x1 ");
}

TEST(DlpackTypes, are_found_by_code_bits_and_lanes) {
  for (int i = 0; i <= static_cast<int>(Dtype::complex128); ++i)
    EXPECT_EQ(find_dtype(dl_type(static_cast<Dtype>(i))), static_cast<Dtype>(i));
  for (const DLDataType& unknown : {DLDataType{2, 32, 4}, {2, 128, 1}, {3, 64, 1}, {4, 32, 1}, {6, 1, 1}, {17, 4, 1}})
    EXPECT_EQ(find_dtype(unknown), std::nullopt);
}

}  // namespace
}  // namespace damacy
