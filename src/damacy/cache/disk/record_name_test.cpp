#include "damacy/cache/disk/record_name.h"

#include <gtest/gtest.h>

namespace damacy {
namespace {

TEST(RecordName, has_the_store_and_the_key_without_secrets) {
  const std::string name = record_name("https://me:hunter2@host/vol.zarr?sig=hunter2", "c/0/1");
  const RecordName parsed = parse_record_name(name);
  EXPECT_EQ(parsed.store, "https://host/vol.zarr");
  EXPECT_EQ(parsed.key, "c/0/1");
}

TEST(RecordName, that_was_cut_has_no_key) {
  const RecordName parsed = parse_record_name("s3://bucket/vo");
  EXPECT_EQ(parsed.store, "s3://bucket/vo");
  EXPECT_EQ(parsed.key, "");
}

TEST(RecordName, is_below_prefixes_that_end_at_a_slash) {
  const std::string name = record_name("s3://bucket/vol.zarr", "c/0/1");
  const auto below = [&](std::string_view prefix) { return is_below(parse_record_name(name), prefix); };
  for (const auto* prefix : {"", "s3://bucket", "s3://bucket/", "s3://bucket/vol.zarr", "s3://bucket/vol.zarr/",
                             "s3://bucket/vol.zarr/c", "s3://bucket/vol.zarr/c/0/1", "s3://bucket/vol.zarr/c/0/1/"})
    EXPECT_TRUE(below(prefix)) << prefix;
  for (const auto* prefix : {"s3://buck", "s3://bucket/vol", "s3://bucket/vol.zarr/c/0/11", "s3://bucket/vol.zarr/d",
                             "s3://bucket/vol.zarr/c/0/1/2", "http://bucket"})
    EXPECT_FALSE(below(prefix)) << prefix;
}

}  // namespace
}  // namespace damacy
