#include "damacy/store/s3/xml.h"

#include <gtest/gtest.h>

namespace damacy::s3 {
namespace {

TEST(S3Xml, keeps_code_message_and_region_of_an_error) {
  const ErrorBody error = parse_error(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>AuthorizationHeaderMalformed</Code><Message>expecting "
      "&apos;eu-west-1&apos;</Message><Region>eu-west-1</Region><StringToSign>secret</StringToSign></Error>");
  EXPECT_EQ(error.code, "AuthorizationHeaderMalformed");
  EXPECT_EQ(error.message, "expecting 'eu-west-1'");
  EXPECT_EQ(error.region, "eu-west-1");
}

TEST(S3Xml, keeps_the_endpoint_of_a_bucket_that_is_elsewhere) {
  EXPECT_EQ(parse_error("<Error><Code>PermanentRedirect</Code><Endpoint>a.s3.example</Endpoint></Error>").endpoint,
            "a.s3.example");
}

TEST(S3Xml, takes_no_error_from_a_body_that_is_cut_or_no_xml) {
  for (const char* const body : {"", "not found", "<html><body>no", "<Error><Code>AccessDenied</Code>",
                                 "<!DOCTYPE a [<!ENTITY b \"c\">]><Error><Code>A</Code></Error>",
                                 "<Error><Code>a b</Code></Error>", "<Error><Code>A</Cod></Error>"})
    EXPECT_EQ(parse_error(body).code, "") << body;
}

TEST(S3Xml, lists_the_names_directly_below_a_prefix) {
  const auto page = parse_listing(
      "a/",
      "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Prefix>a/</Prefix><Delimiter/>"
      "<Contents><Key>a/</Key><Size>0</Size></Contents><Contents><Key>a/zarr.json</Key></Contents>"
      "<Contents><Key>a/b &amp; &#x63;</Key></Contents><Contents><Key>elsewhere</Key></Contents>"
      "<CommonPrefixes><Prefix>a/c/</Prefix></CommonPrefixes>"
      "<IsTruncated>true</IsTruncated><NextContinuationToken>1/=</NextContinuationToken></ListBucketResult>");
  ASSERT_TRUE(page);
  ASSERT_EQ(page->entries.size(), 3u);
  EXPECT_EQ(page->entries[0].name, "zarr.json");
  EXPECT_FALSE(page->entries[0].is_directory);
  EXPECT_EQ(page->entries[1].name, "b & c");
  EXPECT_EQ(page->entries[2].name, "c");
  EXPECT_TRUE(page->entries[2].is_directory);
  EXPECT_EQ(page->next, "1/=");
}

TEST(S3Xml, takes_no_listing_from_other_answers) {
  EXPECT_FALSE(parse_listing("", "<html><body>sign in</body></html>"));
  EXPECT_FALSE(parse_listing("", "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"));
  EXPECT_FALSE(parse_listing("", "<ListBucketResult><IsTruncated>false</IsTruncated>"));
  const auto empty = parse_listing("", "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>");
  ASSERT_TRUE(empty);
  EXPECT_TRUE(empty->entries.empty() && empty->next.empty());
}

TEST(S3Xml, refuses_deep_nesting) {
  std::string deep;
  for (int i = 0; i < 17; ++i) deep += "<a>";
  for (int i = 0; i < 17; ++i) deep += "</a>";
  EXPECT_FALSE(walk_xml(deep, [](auto, auto) {}));
}

}  // namespace
}  // namespace damacy::s3
