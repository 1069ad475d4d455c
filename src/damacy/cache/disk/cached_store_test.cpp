// A store that is read through a disk tier is a Store as the one behind it, and keeps pieces under the same keys in all
// releases. What is kept, and when it may be used: tests/end_to_end/test_disk_cache.py.
#include "damacy/cache/disk/cached_store.h"

#include <cstring>

#include "conformance/store_suite.h"
#include "damacy/core/sha256.h"
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
    tier_ = std::make_shared<DiskTier>(std::move(tier));
    store_ = make_cached_store(http::make_http_store(server_.uri(), settings), tier_);
  }
  DiskTier& tier() { return *tier_; }
  Store& store() { return *store_; }
  void put(std::string_view key, std::string_view bytes) { server_.put(key, bytes); }

 private:
  TempDir directory_;
  testing::ObjectServer server_;
  std::shared_ptr<DiskTier> tier_;
  std::shared_ptr<Store> store_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Cached, StoreSuite, CachedFixture);

// The object's name and version, then where the piece lies in it, both as SHA-256.
TEST(CachedStore, keeps_a_piece_under_the_key_that_earlier_releases_gave_it) {
  CachedFixture fixture;
  fixture.put("a", "0123456789");
  const auto object = fixture.store().open("a");
  object->keep_piece(2, std::as_bytes(std::span(std::string_view("23456"))));
  ASSERT_TRUE(fixture.tier().wait_written(std::chrono::seconds(60)));

  const Sha256 name = sha256(fixture.store().identity() + "/a" + '\0' + "10\n" + object->version());
  std::string text(bytes_of(name));
  for (const std::uint64_t number : {2, 5}) text.append(reinterpret_cast<const char*>(&number), sizeof number);
  ChunkKey key;
  std::memcpy(key.words.data(), sha256(text).data(), sizeof key.words);
  std::string found(5, ' ');
  DiskTier::Wanted wanted{key, std::as_writable_bytes(std::span(found))};
  fixture.tier().read({&wanted, 1});
  EXPECT_TRUE(wanted.found);
  EXPECT_EQ(found, "23456");
}

}  // namespace
}  // namespace damacy
