#include "damacy/store/mounts.h"

#include "conformance/store_suite.h"
#include "damacy/core/formatted.h"
#include "damacy/store/memory_store.h"

namespace damacy {
namespace {

// A store in memory that is mounted while this lives.
class MountedMemory {
 public:
  explicit MountedMemory(std::string_view prefix) : prefix_(mount(prefix, memory_)) {}
  MountedMemory(const MountedMemory&) = delete;
  MountedMemory& operator=(const MountedMemory&) = delete;
  ~MountedMemory() {
    if (is_mounted_) unmount(prefix_);
  }
  void unmount_now() {
    unmount(prefix_);
    is_mounted_ = false;
  }
  MemoryStore& memory() { return *memory_; }
  const std::string& prefix() const { return prefix_; }

 private:
  std::shared_ptr<MemoryStore> memory_ = std::make_shared<MemoryStore>();
  std::string prefix_;
  bool is_mounted_ = true;
};

std::string text_at(Store& store, std::string_view key) {
  const auto object = store.open(key);
  return object ? read_text(*object, 0, object->stamp().size) : "absent";
}

Error refusal(std::string_view uri) {
  return error_of([&] { static_cast<void>(store_of_uri(uri)); });
}

struct MountedFixture {
  MountedMemory mounted{"store://suite/"};
  std::shared_ptr<Store> part = store_of_uri("store://suite/some/group");
  Store& store() { return *part; }
  void put(std::string_view key, std::string_view bytes) {
    mounted.memory().put(formatted("some/group/{}", key), bytes);
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(Mounted, StoreSuite, MountedFixture);

TEST(Mounts, a_uri_names_the_part_of_the_store_below_its_path) {
  MountedMemory era("store://era5");
  EXPECT_EQ(era.prefix(), "store://era5/");
  era.memory().put("key", "root");
  era.memory().put("a/b/key", "deep");
  for (const char* uri : {"store://era5", "store://era5/", "STORE://era5"})
    EXPECT_EQ(text_at(*store_of_uri(uri), "key"), "root") << uri;
  for (const char* uri : {"store://era5/a/b", "store://era5/a/b/"})
    EXPECT_EQ(text_at(*store_of_uri(uri), "key"), "deep") << uri;
  EXPECT_EQ(store_of_uri("store://era5/a/b/")->name(), "store://era5/a/b/");
}

TEST(Mounts, the_longest_prefix_that_ends_at_a_slash_is_used) {
  MountedMemory bucket("s3://bucket/");
  MountedMemory below("s3://bucket/below");
  bucket.memory().put("belowground/key", "bucket");
  below.memory().put("key", "below");
  below.memory().put("x/key", "below x");
  EXPECT_EQ(text_at(*store_of_uri("s3://bucket/belowground"), "key"), "bucket");
  EXPECT_EQ(text_at(*store_of_uri("s3://bucket/below"), "key"), "below");
  EXPECT_EQ(text_at(*store_of_uri("s3://bucket/below/x"), "key"), "below x");
  below.unmount_now();
  EXPECT_EQ(text_at(*store_of_uri("s3://bucket/below/x"), "key"), "absent");
}

TEST(Mounts, what_was_opened_keeps_its_store) {
  MountedMemory first("store://x/");
  first.memory().put("key", "first");
  const auto opened = store_of_uri("store://x/");
  MountedMemory second("store://x/");
  second.memory().put("key", "second");
  EXPECT_EQ(text_at(*store_of_uri("store://x/"), "key"), "second");
  second.unmount_now();
  EXPECT_EQ(text_at(*opened, "key"), "first");
  mount("store://x/", std::make_shared<MemoryStore>());  // for the destructor of `first`
}

TEST(Mounts, a_place_keeps_what_was_mounted_when_it_was_found) {
  MountedMemory first("store://x/");
  first.memory().put("a/key", "first");
  const MountedUri place = find_mount("store://x/a");
  MountedMemory second("store://x/");
  second.memory().put("a/key", "second");
  EXPECT_EQ(text_at(*store_of(place), "key"), "first");
  EXPECT_EQ(text_at(*store_of(find_mount("store://x/a")), "key"), "second");
  EXPECT_NE(store_of(place)->cache_identity(), store_of(find_mount("store://x/a"))->cache_identity());
  EXPECT_EQ(store_of(place)->cache_identity(), store_of(place)->cache_identity());
  second.unmount_now();
  mount("store://x/", std::make_shared<MemoryStore>());  // for the destructor of `first`
}

TEST(Mounts, a_prefix_may_stand_for_another_root) {
  StoreOptions options;
  options.endpoint = "http://127.0.0.1:1";
  options.region = "us-east-1";
  options.anonymous = true;
  EXPECT_EQ(mount("store://other/", "s3://bucket/", options), "store://other/");
  EXPECT_EQ(store_of_uri("store://other/a/b")->name(), "s3://bucket/a/b");
  EXPECT_EQ(store_of_uri("store://other/a/b")->identity(), "http://127.0.0.1:1\ns3://bucket/a/b");
  unmount("store://other/");
}

TEST(Mounts, a_bucket_of_google_is_another_one_than_that_of_s3) {
  const auto google = store_of_uri("gs://bucket/a/b");
  EXPECT_EQ(google->name(), "gs://bucket/a/b");
  EXPECT_EQ(google->identity(), "https://storage.googleapis.com\ngs://bucket/a/b");
  EXPECT_TRUE(google->is_remote());
  StoreOptions options;
  options.endpoint = "http://127.0.0.1:1";
  mount("gs://bucket/", options);
  EXPECT_EQ(store_of_uri("gs://bucket/a/b")->identity(), "http://127.0.0.1:1\ngs://bucket/a/b");
  unmount("gs://bucket/");
  for (const auto set : {+[](StoreOptions& o) { o.profile = "lab"; }, +[](StoreOptions& o) { o.request_payer = true; },
                         +[](StoreOptions& o) { o.redirects = 1; }}) {
    StoreOptions wrong;
    set(wrong);
    const Error error = error_of([&] { mount("gs://bucket/", wrong); });
    EXPECT_EQ(error.where().reason, "options");
    EXPECT_TRUE(error.message().ends_with("not for gs")) << error.message();
  }
}

TEST(Mounts, errors_name_the_uri_and_the_key_below_it) {
  MountedMemory era("store://era5/");
  era.memory().put("a/key", "0123");
  const auto store = store_of_uri("store://era5/a");
  std::vector<std::byte> bytes(8);
  const Error error = error_of([&] { store->open("key")->read_exact(0, bytes); });
  EXPECT_EQ(error.where().store, "store://era5/a");
  EXPECT_EQ(error.where().key, "key");
}

TEST(Mounts, a_uri_without_a_store_is_refused_with_what_to_do) {
  EXPECT_EQ(refusal("store://era5/a").message(),
            "no store is mounted as store://era5/ in this process: use damacy.mount");
  EXPECT_EQ(refusal("az://box/a.zarr").message(),
            "damacy does not read az uris itself: mount a store of obstore for it: "
            "from obstore.store import AzureStore; damacy.mount(\"az://box/\", AzureStore(\"box\"))");
  EXPECT_EQ(refusal("ftp://host/a").message(),
            "the uri has the unsupported scheme ftp: use a path, file:///path, http(s)://HOST/PATH, s3://BUCKET/PATH, "
            "gs://BUCKET/PATH, store://NAME/PATH, or a prefix of which a store is mounted with damacy.mount");
  for (const char* uri : {"store://era5/a", "s3://bu cket/a.zarr", "ftp://host/a", "gs://b/x", "az://c/x"}) {
    EXPECT_EQ(refusal(uri).status(), Status::inval) << uri;
    EXPECT_EQ(refusal(uri).where().reason, "uri") << uri;
    EXPECT_EQ(refusal(uri).where().uri, uri);
  }
}

TEST(Mounts, a_path_below_the_store_is_a_key) {
  MountedMemory era("store://era5/");
  for (const char* uri : {"store://era5//a", "store://era5/a//b", "store://era5/../a"})
    EXPECT_EQ(refusal(uri).where().reason, "uri") << uri;
}

TEST(Mounts, refuses_what_is_no_prefix) {
  const auto memory = std::make_shared<MemoryStore>();
  for (const char* prefix : {"", "era5", "/data/", "file:///data/", "store://", "store:///x", "s3://me:secret@bucket/",
                             "https://host/data?sig=secret", "https://host/#x"}) {
    const Error error = error_of([&] { mount(prefix, memory); });
    EXPECT_EQ(error.where().reason, "uri") << prefix;
    EXPECT_EQ(std::string(error.what()).find("secret"), std::string::npos) << error.what();
  }
  EXPECT_EQ(error_of([&] { mount("store://x/", nullptr); }).where().reason, "uri");
  EXPECT_EQ(error_of([&] { unmount("store://x/"); }).message(), "no store is mounted as store://x/ in this process");
}

TEST(Mounts, lists_what_is_mounted) {
  MountedMemory b("store://b/");
  MountedMemory a("store://a/");
  std::string all;
  for (const auto& [prefix, store] : mounts()) all += prefix + " ";
  EXPECT_EQ(all, "store://a/ store://b/ ");
}

}  // namespace
}  // namespace damacy
