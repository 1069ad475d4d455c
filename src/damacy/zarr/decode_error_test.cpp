// What a decoder's verdict reads like.
#include "damacy/zarr/decode_error.h"

#include <gtest/gtest.h>

#include "damacy/codec/bytes.h"

namespace damacy {
namespace {

std::string line(const DecodeResult& result) {
  return decode_error(result).message();
}

TEST(DecodeError, gives_the_numbers_that_there_are) {
  EXPECT_EQ(line(detail::failed(DecodeStatus::size, "size", 5, 7)), "size: got 5, expected 7");
  EXPECT_EQ(line(detail::failed(DecodeStatus::checksum, "checksum", 5, 0)), "checksum: got 5, expected 0");
  EXPECT_EQ(line(detail::failed(DecodeStatus::limit, "frames", 65, 64)), "frames: 65, the limit is 64");
  EXPECT_EQ(line({DecodeStatus::limit, "a limit", 0, 0}), "a limit");
  EXPECT_EQ(line(detail::failed(DecodeStatus::frame, "decoded bytes", 5)), "decoded bytes: 5");
  EXPECT_EQ(line(detail::failed(DecodeStatus::frame, "decoded bytes", 0)), "decoded bytes: 0");
  EXPECT_EQ(line(detail::failed(DecodeStatus::frame, "malformed")), "malformed");
  EXPECT_EQ(line({DecodeStatus::size, "size", 5, 7}), "size: got 5, expected 7");
}

}  // namespace
}  // namespace damacy
