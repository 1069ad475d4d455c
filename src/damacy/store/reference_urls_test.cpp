#include "damacy/store/reference_urls.h"

#include <gtest/gtest.h>

#include "damacy/core/error.h"
#include "damacy/store/store.h"
#include "support/error_of.h"

namespace damacy {
namespace {

std::string resolved(std::string_view document, std::string_view url, const std::vector<std::string>& allow = {}) {
  return ReferenceUrls(document, allow).resolve(url);
}
bool is_refused(std::string_view document, std::string_view url, const std::vector<std::string>& allow = {}) {
  try {
    resolved(document, url, allow);
    return false;
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::inval);
    EXPECT_EQ(error.where().reason, "uri");
    return true;
  }
}

constexpr std::string_view kS3 = "s3://bucket/refs/a.json";
constexpr std::string_view kHttp = "https://host.org:8443/refs/a.json?token=secret";

TEST(ReferenceUrls, allow_the_bucket_and_the_origin_of_the_document) {
  EXPECT_EQ(resolved(kS3, "s3://bucket/x y.nc"), "s3://bucket/x y.nc");
  EXPECT_EQ(resolved(kS3, "S3://bucket/x.nc"), "s3://bucket/x.nc");
  EXPECT_EQ(resolved(kHttp, "https://HOST.org:8443/X.nc"), "https://host.org:8443/X.nc");
  EXPECT_EQ(resolved(kHttp, "https://host.org:8443/x.nc?key=1"), "https://host.org:8443/x.nc?key=1");
}

TEST(ReferenceUrls, refuse_all_other_places) {
  for (const std::string_view url :
       {"s3://bucket2/x", "s3://bucke/x", "s3://bucket", "https://bucket/x", "gs://bucket/x", "store://bucket/x"})
    EXPECT_EQ(is_refused(kS3, url), url != "s3://bucket") << url;
  for (const std::string_view url :
       {"http://host.org:8443/x", "https://host.org/x", "https://host.org:8443@evil.org/x", "https://evil.org/x",
        "https://host.org:8443.evil.org/x", "https://evil.org/?https://host.org:8443/"})
    EXPECT_TRUE(is_refused(kHttp, url)) << url;
}

TEST(ReferenceUrls, allow_prefixes_that_the_caller_names) {
  const std::vector<std::string> allow{"s3://other/data", "https://host.org/a/"};
  EXPECT_EQ(resolved(kS3, "s3://other/data/x.nc", allow), "s3://other/data/x.nc");
  EXPECT_EQ(resolved(kS3, "s3://other/data", allow), "s3://other/data");
  EXPECT_EQ(resolved(kS3, "https://host.org/a/x.nc", allow), "https://host.org/a/x.nc");
  EXPECT_TRUE(is_refused(kS3, "s3://other/database", allow));
  EXPECT_TRUE(is_refused(kS3, "s3://other/data?x/y", allow));  // in S3 a '?' belongs to the key
  EXPECT_TRUE(is_refused(kS3, "https://host.org/b", allow));
  EXPECT_TRUE(is_refused(kS3, "https://host.org/b?x=/a/", allow));
}

TEST(ReferenceUrls, take_a_missing_path_of_HTTP_as_the_root) {
  EXPECT_EQ(resolved(kHttp, "https://host.org:8443"), "https://host.org:8443/");
  EXPECT_EQ(resolved(kHttp, "https://HOST.org:8443?a+%2be/X"), "https://host.org:8443/?a+%2be/X");
  EXPECT_EQ(resolved(kHttp, "https://host.org:8443#a/X"), "https://host.org:8443/#a/X");
  EXPECT_TRUE(is_refused(kHttp, "https://host.org?:8443/x"));
  EXPECT_TRUE(is_refused(kHttp, "https://evil.org?@host.org:8443/x"));
}

TEST(ReferenceUrls, refuse_parts_that_lead_elsewhere) {
  const std::vector<std::string> allow{"https://host.org/a/"};
  for (const std::string_view url :
       {"https://host.org/a/../b", "https://host.org/a/%2e%2E/b", "https://host.org/a/.%2e", "https://host.org/a/./b",
        "s3://bucket/../x", "../x", "x/../../y"})
    EXPECT_TRUE(is_refused(kS3, url, allow)) << url;
  EXPECT_EQ(resolved(kS3, "https://host.org/a/...", allow), "https://host.org/a/...");
  EXPECT_EQ(resolved(kS3, "https://host.org/a/b?x=../", allow), "https://host.org/a/b?x=../");
}

TEST(ReferenceUrls, of_another_machine_never_name_files) {
  for (const std::string_view url : {"/etc/passwd", "file:///etc/passwd", "FILE:///etc/passwd"}) {
    EXPECT_TRUE(is_refused(kS3, url)) << url;
    EXPECT_TRUE(is_refused(kHttp, url)) << url;
  }
  EXPECT_TRUE(is_refused(kS3, "s3://bucket/x", {"/"}));
  EXPECT_TRUE(is_refused(kS3, "s3://bucket/x", {"file:///data/"}));
}

TEST(ReferenceUrls, relative_ones_are_below_the_folder_of_the_document) {
  EXPECT_EQ(resolved(kS3, "x.nc"), "s3://bucket/refs/x.nc");
  EXPECT_EQ(resolved(kHttp, "b/x.nc"), "https://host.org:8443/refs/b/x.nc");
  EXPECT_EQ(resolved("/data/a.json", "b/x.nc"), "/data/b/x.nc");
  EXPECT_EQ(resolved("file:///data/a%20b/a.json", "x.nc"), "/data/a b/x.nc");
  EXPECT_EQ(resolved("a.json", "x.nc"), absolute_path("x.nc"));
}

TEST(ReferenceUrls, of_a_file_may_name_files_and_what_is_allowed) {
  EXPECT_EQ(resolved("/data/a.json", "/other/x.nc"), "/other/x.nc");
  EXPECT_EQ(resolved("/data/a.json", "file:///other/x%20y.nc"), "/other/x y.nc");
  EXPECT_TRUE(is_refused("/data/a.json", "/other/../x.nc"));
  EXPECT_TRUE(is_refused("/data/a.json", "s3://bucket/x"));
  EXPECT_EQ(resolved("/data/a.json", "s3://bucket/x", {"s3://bucket/"}), "s3://bucket/x");
}

TEST(ReferenceUrls, show_no_secret_and_say_what_to_pass) {
  const Error error = error_of([] { resolved(kHttp, "https://user:pass@evil.org/x?key=hidden"); });
  EXPECT_EQ(error.message(),
            "the document names https://evil.org/x, which is elsewhere: if you trust it, pass "
            "allow=[\"https://evil.org/\"]");
  EXPECT_EQ(std::string(error.what()).find("secret"), std::string::npos);
}

}  // namespace
}  // namespace damacy
