#include "damacy/store/store.h"

#include "conformance/store_suite.h"
#include "damacy/store/memory_store.h"
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
struct DecoratedFixture {
  std::shared_ptr<MemoryStore> memory = std::make_shared<MemoryStore>();
  std::shared_ptr<Store> faulty = std::make_shared<FaultyStore>(memory, Fault{});
  std::shared_ptr<Store> latency =
      std::make_shared<LatencyStore>(faulty, std::make_shared<ManualClock>(), Clock::Time(0));
  MeteredStore metered{latency};
  Store& store() { return metered; }
  void put(std::string_view key, std::string_view bytes) { memory->put(key, bytes); }
};

INSTANTIATE_TYPED_TEST_SUITE_P(File, StoreSuite, FileFixture);
INSTANTIATE_TYPED_TEST_SUITE_P(OneDescriptor, StoreSuite, OneDescriptorFixture);
INSTANTIATE_TYPED_TEST_SUITE_P(Memory, StoreSuite, MemoryFixture);
INSTANTIATE_TYPED_TEST_SUITE_P(Decorated, StoreSuite, DecoratedFixture);

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
