// Services of plain HTTP under their contract, and how their addresses are made.
#include "damacy/store/http/plain_service.h"

#include "conformance/service_suite.h"

namespace damacy {
namespace {

struct PlainFixture {
  static std::shared_ptr<http::Service> make() {
    http::HttpSettings settings;
    settings.headers = {"X-Token: secret"};
    return http::make_plain_service("https://host/data", settings);
  }
};
struct UrlFixture {
  static std::shared_ptr<http::Service> make() {
    return http::make_url_service("https://host/data.zip?signature=secret", {});
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(Plain, ServiceSuite, PlainFixture);
INSTANTIATE_TYPED_TEST_SUITE_P(Url, ServiceSuite, UrlFixture);

TEST(PlainService, keys_are_percent_encoded_below_the_root_and_headers_are_sent) {
  const auto service = PlainFixture::make();
  const http::Address address = service->address("a b/c.0", {});
  EXPECT_EQ(address.url, "https://host/data/a%20b/c.0");
  EXPECT_EQ(address.headers, std::vector<std::string>{"X-Token: secret"});
}

TEST(PlainService, a_url_is_one_object_whatever_its_key) {
  const auto service = UrlFixture::make();
  EXPECT_EQ(service->address("any", {}).url, "https://host/data.zip?signature=secret");
}

}  // namespace
}  // namespace damacy
