// What every Service says about its objects. A new implementation joins with
//   struct MyFixture { static std::shared_ptr<http::Service> make(); };
//   INSTANTIATE_TYPED_TEST_SUITE_P(My, ServiceSuite, MyFixture);
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "damacy/store/http/service.h"

namespace damacy {

template <class Fixture>
class ServiceSuite : public ::testing::Test {
 protected:
  static http::Service::Time later() { return std::chrono::steady_clock::now() + std::chrono::minutes(1); }
  static http::Head head_of(int status) {
    http::Head head;
    head.status = status;
    return head;
  }
  static http::Failure usual() { return {"http", "GET failed", false}; }
  const std::shared_ptr<http::Service> service = Fixture::make();
};

TYPED_TEST_SUITE_P(ServiceSuite);

TYPED_TEST_P(ServiceSuite, an_address_is_an_encoded_url_with_lines_as_headers_each_time_the_same_url) {
  for (const char* const key : {"a", "a b/c%d", "\xc3\xa9?x#y"}) {
    const http::Address address = this->service->address(key, this->later());
    EXPECT_TRUE(address.url.starts_with("http")) << address.url;
    for (const char c : address.url) EXPECT_TRUE(c > ' ' && c < 0x7f && c != '#') << address.url;
    EXPECT_EQ(this->service->address(key, this->later()).url, address.url);
    for (const std::string& line : address.headers) {
      EXPECT_EQ(line.find_first_of("\r\n"), line.npos);
      EXPECT_NE(line.find(':'), line.npos);
    }
  }
}

TYPED_TEST_P(ServiceSuite, an_object_that_is_not_there_is_absent_and_one_that_was_there_is_not) {
  EXPECT_FALSE(this->service->refused("key", this->head_of(404), "", /*known=*/false, this->usual()));
  EXPECT_TRUE(this->service->refused("key", this->head_of(404), "", /*known=*/true, this->usual()));
}

TYPED_TEST_P(ServiceSuite, an_error_of_the_server_is_a_failure_whether_the_object_is_known_or_not) {
  for (const int status : {400, 500, 503})
    for (const bool known : {false, true}) {
      const auto failure = this->service->refused("key", this->head_of(status), "", known, this->usual());
      ASSERT_TRUE(failure) << status;
      EXPECT_NE(failure->reason, nullptr);
      EXPECT_FALSE(failure->text.empty());
    }
}

TYPED_TEST_P(ServiceSuite, it_has_listings_or_neither_asks_for_them_nor_reads_any) {
  if (this->service->has_listings()) GTEST_SKIP() << "it has listings";
  EXPECT_FALSE(this->service->listing("", "", this->later()));
  EXPECT_FALSE(this->service->parse_listing("", "<ListBucketResult/>"));
}

REGISTER_TYPED_TEST_SUITE_P(ServiceSuite, an_address_is_an_encoded_url_with_lines_as_headers_each_time_the_same_url,
                            an_object_that_is_not_there_is_absent_and_one_that_was_there_is_not,
                            an_error_of_the_server_is_a_failure_whether_the_object_is_known_or_not,
                            it_has_listings_or_neither_asks_for_them_nor_reads_any);

}  // namespace damacy
