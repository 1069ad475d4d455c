// The HTTP store as a Store, against a server with objects in memory.
#include "conformance/store_suite.h"
#include "damacy/store/http/http_store.h"
#include "fakes/object_server.h"

namespace damacy::http {
namespace {

// `head_bytes`: what opening brings. Larger objects are read by requests of their own.
template <std::size_t head_bytes>
class HttpFixture {
 public:
  static constexpr bool kHasDirectories = false;

  HttpFixture() {
    HttpSettings settings;
    settings.head_bytes = head_bytes;
    settings.revalidate_after = std::chrono::milliseconds(0);  // what is put again is noticed at once
    store_ = make_http_store(server_.uri(), settings);
  }
  Store& store() { return *store_; }
  void put(std::string_view key, std::string_view bytes) { server_.put(key, bytes); }

 private:
  testing::ObjectServer server_;
  std::shared_ptr<Store> store_;
};

}  // namespace
}  // namespace damacy::http

namespace damacy {

INSTANTIATE_TYPED_TEST_SUITE_P(Http, StoreSuite, http::HttpFixture<64 << 10>);
INSTANTIATE_TYPED_TEST_SUITE_P(HttpByRanges, StoreSuite, http::HttpFixture<1>);

}  // namespace damacy
