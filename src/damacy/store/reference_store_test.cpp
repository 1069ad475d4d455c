#include "damacy/store/reference_store.h"

#include <functional>
#include <map>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include "conformance/store_suite.h"
#include "damacy/core/formatted.h"
#include "damacy/store/counted_store.h"
#include "damacy/store/memory_store.h"
#include "damacy/store/mounts.h"
#include "damacy/store/network_counts.h"
#include "fakes/temp_dir.h"
#include "support/error_of.h"

namespace damacy {
namespace {

enum class Kind { data, whole, range };

// The store is made again when an object is put. Each object that is put is a new file.
template <Kind kind>
class ReferencesFixture {
 public:
  Store& store() {
    if (!store_) store_ = make();
    return *store_;
  }
  void put(std::string_view key, std::string_view bytes) {
    const std::string file = formatted("{}-{}", values_.size(), ++puts_);
    if (kind == Kind::whole) directory_.put(file, bytes);
    if (kind == Kind::range) directory_.put(file, formatted("<<{}>>", bytes));
    values_[std::string(key)] = {std::string(bytes), directory_.path(file)};
    store_.reset();
  }

 private:
  std::shared_ptr<Store> make() const {
    References references;
    for (const auto& [key, value] : values_) {
      const auto& [bytes, path] = value;
      if (kind == Kind::data) references.add_data(key, bytes);
      if (kind == Kind::whole) references.add(key, path, std::nullopt);
      if (kind == Kind::range) references.add(key, path, References::Range{2, bytes.size()});
    }
    EXPECT_FALSE(references.finish());
    return make_reference_store("references", std::move(references));
  }

  TempDir directory_;
  int puts_ = 0;
  std::map<std::string, std::pair<std::string, std::string>> values_;  // bytes and file of each key
  std::shared_ptr<Store> store_;
};
INSTANTIATE_TYPED_TEST_SUITE_P(ReferencedData, StoreSuite, ReferencesFixture<Kind::data>);
INSTANTIATE_TYPED_TEST_SUITE_P(ReferencedObject, StoreSuite, ReferencesFixture<Kind::whole>);
INSTANTIATE_TYPED_TEST_SUITE_P(ReferencedRange, StoreSuite, ReferencesFixture<Kind::range>);

std::string document(std::string_view refs) {
  return formatted(R"({{"version": 1, "refs": {}}})", refs);
}

std::string text_at(Store& store, std::string_view key) {
  const auto object = store.open(key);
  return object ? read_text(*object, 0, object->stamp().size) : "absent";
}

// A store in memory, and a document in it, that are mounted while this lives.
class MountedReferences {
 public:
  explicit MountedReferences(std::string_view refs) {
    memory_->put("refs/a.json", document(refs));
    mount("store://memory/", memory_);
  }
  MountedReferences(const MountedReferences&) = delete;
  MountedReferences& operator=(const MountedReferences&) = delete;
  ~MountedReferences() { unmount("store://memory/"); }
  MemoryStore& memory() { return *memory_; }
  std::shared_ptr<Store> store() { return make_reference_store("store://memory/refs/a.json"); }

 private:
  const std::shared_ptr<MemoryStore> memory_ = std::make_shared<MemoryStore>();
};

TEST(ReferenceStore, reads_parts_of_objects_beside_its_document) {
  MountedReferences mounted(R"({"a": ["store://memory/data", 2, 3], "b": ["data2"], "c": "text"})");
  mounted.memory().put("data", "0123456789");
  mounted.memory().put("refs/data2", "whole");
  const auto store = mounted.store();
  EXPECT_EQ(store->name(), "references store://memory/refs/a.json");
  EXPECT_EQ(text_at(*store, "a"), "234");
  EXPECT_EQ(text_at(*store, "b"), "whole");
  EXPECT_EQ(text_at(*store, "c"), "text");
  EXPECT_EQ(text_at(*store, "d"), "absent");
}

class NotedStore final : public Store {
 public:
  std::string name() const override { return "noted"; }
  std::shared_ptr<Object> open(std::string_view) override { return nullptr; }
  std::optional<Stamp> stamp(std::string_view) override { return std::nullopt; }
  std::vector<Entry> list(std::string_view) override { return {}; }
  void expect(std::string_view key, const Expectation& read) override {
    if (read.reads > 0) ++reads[std::string(key)];
  }
  void unexpect(std::string_view key) noexcept override { --reads[std::string(key)]; }
  std::map<std::string, int> reads;
};

TEST(ReferenceStore, ends_the_reads_of_whole_objects_that_it_announced) {
  const MountedReferences mounted(R"({"a": ["store://noted/x"], "b": ["store://noted/y", 2, 3], "c": "text"})");
  const auto noted = std::make_shared<NotedStore>();
  mount("store://noted/", noted);
  const std::string allowed[] = {"store://noted/"};
  const auto store = make_reference_store("store://memory/refs/a.json", allowed);
  for (const char* const key : {"a", "b", "c", "d"}) store->expect(key, {.bytes = 4, .reads = 1});
  EXPECT_EQ(noted->reads, (std::map<std::string, int>{{"x", 1}}));
  for (const char* const key : {"a", "b", "c", "d"}) store->unexpect(key);
  EXPECT_EQ(noted->reads, (std::map<std::string, int>{{"x", 0}}));
  unmount("store://noted/");
}

TEST(ReferenceStore, is_mounted_like_any_store) {
  MountedReferences mounted(R"({"g/a": ["store://memory/data", 2, 3]})");
  mounted.memory().put("data", "0123456789");
  mount("store://references/", mounted.store());
  EXPECT_EQ(text_at(*store_of_uri("store://references/g"), "a"), "234");
  unmount("store://references/");
}

TEST(ReferenceStore, an_object_that_is_not_there_is_an_error_and_not_absent) {
  MountedReferences mounted(R"({"a": ["store://memory/data", 2, 3]})");
  const auto store = mounted.store();
  for (const auto& call :
       {std::function<void()>([&] { store->open("a"); }), std::function<void()>([&] { store->stamp("a"); })}) {
    const Error error = error_of(call);
    EXPECT_EQ(error.status(), Status::io);
    EXPECT_EQ(error.message(), "the reference names store://memory/data, which does not exist");
    EXPECT_EQ(error.where().key, "a");
  }
}

TEST(ReferenceStore, an_object_that_ends_before_the_range_is_an_error) {
  MountedReferences mounted(R"({"a": ["store://memory/data", 8, 3], "b": ["store://memory/data", 11, 0]})");
  mounted.memory().put("data", "0123456789");
  const Error error = error_of([&] { mounted.store()->open("a"); });
  EXPECT_EQ(error.where().reason, "short-read");
  EXPECT_EQ(error.message(), "the reference names bytes 8 to 11 of store://memory/data, which has 10 bytes");
  EXPECT_EQ(error_of([&] { mounted.store()->open("b"); }).where().reason, "short-read");
}

TEST(ReferenceStore, a_new_version_of_the_object_is_a_new_stamp) {
  MountedReferences mounted(R"({"a": ["store://memory/data", 2, 3], "b": "text"})");
  mounted.memory().put("data", "0123456789");
  const auto store = mounted.store();
  const auto before = store->stamp("a"), text_before = store->stamp("b");
  mounted.memory().put("data", "9876543210");
  EXPECT_NE(store->stamp("a"), before);
  EXPECT_EQ(store->stamp("a")->size, 3u);
  EXPECT_EQ(store->stamp("b"), text_before);
}

TEST(ReferenceStore, references_that_lead_to_themselves_end) {
  MountedReferences mounted(R"({"a": ["store://memory/a", 0, 1], "b": ["store://memory/b"]})");
  const auto store = mounted.store();
  mount("store://memory/", store);
  EXPECT_EQ(error_of([&] { store->open("a"); }).where().reason, "io");
  EXPECT_EQ(error_of([&] { store->stamp("b"); }).where().reason, "io");
}

TEST(ReferenceStore, says_which_document_cannot_be_read) {
  MountedReferences mounted(R"({"a": ["s3://elsewhere/data", 2, 3]})");
  const Error error = error_of([&] { mounted.store(); });
  EXPECT_EQ(error.where().reason, "uri");
  EXPECT_EQ(error.where().uri, "store://memory/refs/a.json");
  EXPECT_EQ(error_of([] { static_cast<void>(make_reference_store("store://memory/nothing.json")); }).where().reason,
            "no-object");
  for (const char* uri : {"store://memory/a.parq", "/tmp", "s3://bucket/x.parquet?x"}) {
    const Error parquet = error_of([&] { static_cast<void>(make_reference_store(uri)); });
    EXPECT_EQ(parquet.kind(), ErrorKind::unsupported_format) << uri;
    EXPECT_EQ(parquet.where().reason, "references") << uri;
  }
  mounted.memory().put("refs/a.json", "PAR1....");
  EXPECT_EQ(error_of([&] { mounted.store(); }).where().reason, "references");
}

TEST(References, are_counted_in_a_forked_child_although_a_thread_of_its_parent_holds_the_lock) {
  References references;
  references.add_data("a", "x");
  EXPECT_FALSE(references.finish());
  const auto store = make_reference_store("references", std::move(references));
  auto& counted = dynamic_cast<CountedStore&>(*store);
  const auto use = [&] { return counted.for_use({.counts = std::make_shared<NetworkCounts>()}) != nullptr; };
  const std::jthread other([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) EXPECT_TRUE(use());
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);
      ::_exit(use() ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0) << i;
  }
}

}  // namespace
}  // namespace damacy
