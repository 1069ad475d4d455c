#include "damacy/store/store.h"

#include "conformance/store_suite.h"
#include "damacy/core/limits.h"
#include "damacy/store/memory_store.h"
#include "damacy/store/storage_watch.h"
#include "fakes/hung_store.h"
#include "fakes/temp_dir.h"
#include "support/faulty_store.h"
#include "support/latency_store.h"
#include "support/metered_store.h"

namespace damacy {
namespace {

struct FileFixture {
  TempDir directory;
  std::shared_ptr<Store> files = make_file_store(directory.path(), 16);
  Store& store() { return *files; }
  void put(std::string_view key, std::string_view bytes) { directory.put(key, bytes); }
};

struct OneDescriptorFixture : FileFixture {
  OneDescriptorFixture() { files = make_file_store(directory.path(), 1); }
};

struct MemoryFixture {
  MemoryStore memory;
  Store& store() { return memory; }
  void put(std::string_view key, std::string_view bytes) { memory.put(key, bytes); }
};

// Decorators that do nothing but pass on.
template <class Decorate>
struct DecoratedFixture {
  std::shared_ptr<MemoryStore> memory = std::make_shared<MemoryStore>();
  std::shared_ptr<Store> decorated = Decorate()(memory);
  Store& store() { return *decorated; }
  void put(std::string_view key, std::string_view bytes) { memory->put(key, bytes); }
};
struct Metered {
  auto operator()(std::shared_ptr<Store> inner) const { return std::make_shared<MeteredStore>(std::move(inner)); }
};
struct Late {
  auto operator()(std::shared_ptr<Store> inner) const {
    return std::make_shared<LatencyStore>(std::move(inner), std::make_shared<ManualClock>(), Clock::Time(0));
  }
};
struct Faulty {
  auto operator()(std::shared_ptr<Store> inner) const {
    return std::make_shared<FaultyStore>(std::move(inner), Fault{});
  }
};
struct Hung {
  auto operator()(std::shared_ptr<Store> inner) const { return std::make_shared<testing::HungStore>(std::move(inner)); }
};
struct Watched {
  auto operator()(std::shared_ptr<Store> inner) const { return make_watched_store(std::move(inner)); }
};

INSTANTIATE_TYPED_TEST_SUITE_P(File, StoreSuite, FileFixture);
INSTANTIATE_TYPED_TEST_SUITE_P(OneDescriptor, StoreSuite, OneDescriptorFixture);
INSTANTIATE_TYPED_TEST_SUITE_P(Memory, StoreSuite, MemoryFixture);
INSTANTIATE_TYPED_TEST_SUITE_P(Metered, StoreSuite, DecoratedFixture<Metered>);
INSTANTIATE_TYPED_TEST_SUITE_P(Late, StoreSuite, DecoratedFixture<Late>);
INSTANTIATE_TYPED_TEST_SUITE_P(Faulty, StoreSuite, DecoratedFixture<Faulty>);
INSTANTIATE_TYPED_TEST_SUITE_P(Hung, StoreSuite, DecoratedFixture<Hung>);
INSTANTIATE_TYPED_TEST_SUITE_P(Watched, StoreSuite, DecoratedFixture<Watched>);

bool is_key(std::string_view key) {
  try {
    check_key(key);
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST(CheckKey, is_exact_at_its_limits) {
  EXPECT_TRUE(is_key(std::string(Limits::key_bytes - 1, 'k')));
  EXPECT_TRUE(is_key(std::string(Limits::key_bytes, 'k')));
  EXPECT_FALSE(is_key(std::string(Limits::key_bytes + 1, 'k')));
  std::string deep = "0";
  for (std::uint64_t i = 1; i < Limits::key_components; ++i) deep += "/0";
  EXPECT_TRUE(is_key(deep));
  EXPECT_FALSE(is_key(deep + "/0"));
}

TEST(PathOfUri, takes_a_path_literally) {
  for (const std::string path :
       {"a.zarr", "/data/a b.zarr", "../x", "a%20b", "c:/x", "file:/x", "://x", "1file:///x", "a//b", ".", "file:"})
    EXPECT_EQ(path_of_uri(path), path);
}

TEST(PathOfUri, decodes_a_file_uri_once) {
  EXPECT_EQ(path_of_uri("file:///data/a.zarr"), "/data/a.zarr");
  EXPECT_EQ(path_of_uri("FILE:///data/a.zarr"), "/data/a.zarr");
  EXPECT_EQ(path_of_uri("file:///a%20b%2520c%c3%A4"), "/a b%20c\xc3\xa4");
  EXPECT_EQ(path_of_uri("file:///a%2fb"), "/a/b");
  EXPECT_EQ(path_of_uri("file:///a?b#c"), "/a?b#c");
}

TEST(PathOfUri, refuses_what_it_cannot_read) {
  const std::string nul("a\0b", 3);
  const std::string too_long(Limits::uri_bytes + 1, 'u');
  for (const std::string& uri :
       {std::string(), nul, too_long, std::string("http://host/x"), std::string("s3://bucket/x"),
        std::string("file://localhost/x"), std::string("file://"), std::string("file://x"), std::string("file:///a%2"),
        std::string("file:///a%"), std::string("file:///%zz"), std::string("file:///a%00b")}) {
    const Error error = error_of([&] { (void)path_of_uri(uri); });
    EXPECT_EQ(error.status(), Status::inval) << uri;
    EXPECT_EQ(error.where().reason, "uri") << uri;
  }
  EXPECT_EQ(path_of_uri(too_long.substr(1)).size(), Limits::uri_bytes);
}

}  // namespace
}  // namespace damacy
