#include "damacy/store/s3/sigv4.h"

#include <gtest/gtest.h>

#include "damacy/core/sha256.h"

namespace damacy::s3 {
namespace {

std::string signature_of(const std::string& authorization) {
  return authorization.substr(authorization.find("Signature=") + 10);
}

// The test suite of AWS for Signature Version 4 ("aws-sig-v4-test-suite").
constexpr std::int64_t kSuiteTime = 1440938160;  // 2015-08-30 12:36:00
const Keys kSuiteKeys{"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", ""};
const Fields kSuiteHeaders{{"host", "example.amazonaws.com"}, {"x-amz-date", "20150830T123600Z"}};

std::string suite(std::string_view method, std::string_view path, std::string_view query, Fields headers) {
  headers.insert(headers.end(), kSuiteHeaders.begin(), kSuiteHeaders.end());
  const ToSign request{method, path, query, headers, kEmptyBodySha256};
  return authorization(request, kSuiteKeys, {"us-east-1", "service", kSuiteTime});
}

TEST(SigV4, signs_the_requests_of_the_test_suite) {
  EXPECT_EQ(suite("GET", "/", "", {}),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
            "SignedHeaders=host;x-amz-date, "
            "Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
  EXPECT_EQ(signature_of(suite("POST", "/", "", {})),
            "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b");
  EXPECT_EQ(signature_of(suite("GET", "/", query_text({{"Param2", "value2"}, {"Param1", "value1"}}), {})),
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500");
  EXPECT_EQ(signature_of(suite("POST", "/", query_text({{"Param1", "value1"}}), {})),
            "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11");
  EXPECT_EQ(signature_of(suite("GET", percent_encoded("/\u1234", true), "", {})),
            "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85");
  EXPECT_EQ(signature_of(suite("GET", "/", "", {{"my-header1", " value1"}, {"my-header2", " \"a   b   c\""}})),
            "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736");
}

// "Examples: Signature Calculations in AWS Signature Version 4" of the Amazon S3 documentation.
std::string s3_example(std::string_view path, std::string_view query, Fields headers) {
  headers.insert(headers.end(), {{"host", "examplebucket.s3.amazonaws.com"},
                                 {"x-amz-content-sha256", std::string(kEmptyBodySha256)},
                                 {"x-amz-date", "20130524T000000Z"}});
  const Keys keys{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};
  return signature_of(
      authorization({"GET", path, query, headers, kEmptyBodySha256}, keys, {"us-east-1", "s3", 1369353600}));
}

TEST(SigV4, signs_the_requests_of_the_documentation_of_s3) {
  EXPECT_EQ(s3_example("/test.txt", "", {{"range", "bytes=0-9"}}),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  EXPECT_EQ(s3_example("/", query_text({{"lifecycle", ""}}), {}),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  EXPECT_EQ(s3_example("/", query_text({{"prefix", "J"}, {"max-keys", "2"}}), {}),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST(SigV4, writes_dates_of_each_part_with_all_digits) {
  EXPECT_EQ(amz_date(0), "19700101T000000Z");
  EXPECT_EQ(amz_date(951827696), "20000229T123456Z");
  EXPECT_EQ(amz_date(kSuiteTime), "20150830T123600Z");
}

TEST(SigV4, encodes_all_except_unreserved_characters) {
  EXPECT_EQ(percent_encoded("a b/c+d=e(f)%2F~-._", true), "a%20b/c%2Bd%3De%28f%29%252F~-._");
  EXPECT_EQ(percent_encoded("a/b", false), "a%2Fb");
  EXPECT_EQ(query_text({{"prefix", "a/b c"}, {"delimiter", "/"}, {"list-type", "2"}}),
            "delimiter=%2F&list-type=2&prefix=a%2Fb%20c");
}

}  // namespace
}  // namespace damacy::s3
