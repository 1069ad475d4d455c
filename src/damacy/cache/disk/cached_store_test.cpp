// A store that is read through a disk tier is a Store as the one behind it. What is kept, and when it may be used:
// tests/end_to_end/test_disk_cache.py.
#include "damacy/cache/disk/cached_store.h"

#include "conformance/store_suite.h"
#include "damacy/store/http/http_store.h"
#include "fakes/object_server.h"
#include "fakes/temp_dir.h"

namespace damacy {
namespace {

class CachedFixture {
 public:
  static constexpr bool kHasDirectories = false;

  CachedFixture() {
    http::HttpSettings settings;
    settings.revalidate_after = std::chrono::milliseconds(0);  // what is put again is noticed at once
    DiskTierSettings tier;
    tier.directory = directory_.path();
    tier.sizes = disk_tier_sizes(DiskTierSizes::kLeastBytes, 64 << 20);
    store_ =
        make_cached_store(http::make_http_store(server_.uri(), settings), std::make_shared<DiskTier>(std::move(tier)));
  }
  Store& store() { return *store_; }
  void put(std::string_view key, std::string_view bytes) { server_.put(key, bytes); }

 private:
  TempDir directory_;
  testing::ObjectServer server_;
  std::shared_ptr<Store> store_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Cached, StoreSuite, CachedFixture);

}  // namespace
}  // namespace damacy
