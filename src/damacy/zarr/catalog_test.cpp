#include "damacy/zarr/catalog.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <map>
#include <thread>

#include "damacy/core/formatted.h"
#include "damacy/store/memory_store.h"
#include "damacy/store/mounts.h"
#include "fakes/temp_dir.h"
#include "support/documents.h"
#include "support/metered_store.h"

namespace damacy {
namespace {

using namespace for_tests;

const Refusal kChanged{Status::io, ErrorKind::plain, "changed", ""};

// Stores in memory by path, each counted.
struct Stores {
  struct One {
    std::shared_ptr<MemoryStore> memory;
    std::shared_ptr<MeteredStore> metered;
  };
  One& at(const std::string& path) {
    One& one = stores[path];
    if (!one.memory) {
      one.memory = std::make_shared<MemoryStore>(path);
      one.metered = std::make_shared<MeteredStore>(one.memory);
    }
    return one;
  }
  Catalog catalog(const Catalog::Limits& limits = {}) {
    return {limits, [this](const std::string& path) { return at(path).metered; }};
  }
  MemoryStore& memory(const std::string& path) { return *at(path).memory; }
  MeteredStore::Counts counts(const std::string& path) { return at(path).metered->counts(); }
  std::map<std::string, One> stores;
};

// Four raw chunks of (2, 3) bytes a shard of (4, 6).
std::string sharded_document() {
  return v3_document({{"shape", "[8,12]"},
                      {"data_type", R"("uint8")"},
                      {"chunk_grid", R"({"name":"regular","configuration":{"chunk_shape":[4,6]}})"},
                      {"codecs", sharded({{"chunk_shape", "[2,3]"}, {"codecs", R"(["bytes"])"}})}});
}

// Chunk 0 at `offset`, the others missing.
std::string shard_bytes(std::uint64_t offset = 0, std::uint64_t size = 6) {
  std::vector<std::byte> index(64, std::byte{0xff});
  for (std::size_t i = 0; i < 8; ++i) {
    index[i] = static_cast<std::byte>(offset >> (8 * i));
    index[8 + i] = static_cast<std::byte>(size >> (8 * i));
  }
  const std::uint32_t checksum = crc32c(index);
  for (std::size_t i = 0; i < 4; ++i) index.push_back(static_cast<std::byte>(checksum >> (8 * i)));
  return std::string("chunk0") + std::string(reinterpret_cast<const char*>(index.data()), index.size());
}

Stores with_shards(std::initializer_list<std::string> keys = {"c/0/0"}) {
  Stores stores;
  stores.memory("a").put("zarr.json", sharded_document());
  for (const auto& key : keys) stores.memory("a").put(key, shard_bytes());
  return stores;
}

TEST(Catalog, opens_an_array_once) {
  Stores stores = with_shards();
  Catalog catalog = stores.catalog();
  const auto first = catalog.array("a");
  const auto opens = stores.counts("a").opens;
  EXPECT_EQ(catalog.array("a").get(), first.get());
  EXPECT_EQ(stores.counts("a").opens, opens);
  EXPECT_EQ(catalog.counts().array_hits, 1u);
  EXPECT_EQ(catalog.counts().array_misses, 1u);
}

TEST(Catalog, reads_an_index_with_one_request_and_once) {
  Stores stores = with_shards();
  Catalog catalog = stores.catalog();
  const auto array = catalog.array("a");
  const auto before = stores.counts("a");
  const auto shard = catalog.shard(*array, {0, 0});
  EXPECT_EQ(stores.counts("a").reads, before.reads + 1);
  EXPECT_EQ(stores.counts("a").bytes, before.bytes + 68);
  EXPECT_EQ(shard->key, "c/0/0");
  EXPECT_EQ(shard->index->find(0), (ByteRange{0, 6}));
  EXPECT_EQ(shard->index->find(1), std::nullopt);
  EXPECT_EQ(catalog.shard(*array, {0, 0})->index->find(0), (ByteRange{0, 6}));
  EXPECT_EQ(stores.counts("a").reads, before.reads + 1);
  EXPECT_EQ(catalog.counts().shard_hits, 1u);
  EXPECT_EQ(catalog.counts().shard_misses, 1u);
  catalog.reset_counts();
  EXPECT_EQ(catalog.counts().shard_misses, 0u);
}

TEST(Catalog, an_absent_shard_is_no_error_and_may_come_later) {
  Stores stores = with_shards();
  Catalog catalog = stores.catalog();
  const auto array = catalog.array("a");
  EXPECT_EQ(catalog.shard(*array, {1, 1}), nullptr);
  stores.memory("a").put("c/1/1", shard_bytes());
  EXPECT_NE(catalog.shard(*array, {1, 1}), nullptr);
}

TEST(Catalog, an_unsharded_chunk_is_an_object_without_index) {
  Stores stores;
  stores.memory("a").put("zarr.json", v3_document({}));
  stores.memory("a").put("c/0/1", "bytes");
  Catalog catalog = stores.catalog();
  const auto array = catalog.array("a");
  EXPECT_EQ(catalog.shard(*array, {0, 0}), nullptr);
  const auto chunk = catalog.shard(*array, {0, 1});
  EXPECT_EQ(chunk->key, "c/0/1");
  EXPECT_FALSE(chunk->index.has_value());
  EXPECT_EQ(chunk->object->stamp().size, 5u);
  EXPECT_EQ(catalog.counts().shard_misses, 0u);
}

TEST(Catalog, a_document_that_changed_is_an_error_once_and_then_read_anew) {
  Stores stores = with_shards();
  Catalog catalog = stores.catalog();
  const auto old = catalog.array("a");
  stores.memory("a").put("zarr.json", v3_document({}));
  EXPECT_EQ(refusal_of([&] { catalog.array("a"); }), kChanged);
  EXPECT_EQ(catalog.array("a")->metadata().dtype, Dtype::i16);
  EXPECT_EQ(refusal_of([&] { catalog.check_unchanged(*old); }), kChanged);
  EXPECT_EQ(refusal_of([&] { catalog.check_unchanged(*catalog.array("a")); }), accepted());
}

TEST(Catalog, a_document_that_vanished_has_changed) {
  Stores stores = with_shards();
  Catalog catalog = stores.catalog();
  catalog.array("a");
  stores.memory("a").remove("zarr.json");
  EXPECT_EQ(refusal_of([&] { catalog.array("a"); }), kChanged);
  EXPECT_EQ(refusal_of([&] { catalog.array("a"); }).reason, "no-metadata");
}

TEST(Catalog, an_image_has_changed_when_its_group_has) {
  Stores stores;
  stores.memory("a").put(".zgroup", R"({"zarr_format":2})");
  stores.memory("a").put(".zattrs", R"({"multiscales":[{"datasets":[{"path":"0"}]}]})");
  stores.memory("a").put("0/.zarray", v2_document({}));
  stores.memory("a").put("1/.zarray", v2_document({}));
  Catalog catalog = stores.catalog();
  EXPECT_EQ(catalog.array("a")->path(), "0");
  stores.memory("a").put(".zattrs", R"({"multiscales":[{"datasets":[{"path":"1"}]}]})");
  EXPECT_EQ(refusal_of([&] { catalog.array("a"); }), kChanged);
  EXPECT_EQ(catalog.array("a")->path(), "1");
}

TEST(Catalog, a_shard_whose_index_is_known_must_stay_as_it_was) {
  Stores stores = with_shards();
  Catalog catalog = stores.catalog();
  const auto array = catalog.array("a");
  const auto shard = catalog.shard(*array, {0, 0});
  EXPECT_EQ(refusal_of([&] { catalog.check_unchanged(*array, *shard); }), accepted());
  stores.memory("a").put("c/0/0", shard_bytes());
  EXPECT_EQ(refusal_of([&] { catalog.check_unchanged(*array, *shard); }), kChanged);
  catalog.shard(*array, {0, 0});
  stores.memory("a").put("c/0/0", shard_bytes());
  EXPECT_EQ(refusal_of([&] { catalog.shard(*array, {0, 0}); }), kChanged);
  EXPECT_EQ(refusal_of([&] { catalog.shard(*array, {0, 0}); }), accepted());
}

TEST(Catalog, a_shard_whose_index_is_known_and_that_is_gone_is_not_fill) {
  Stores stores = with_shards();
  Catalog catalog = stores.catalog();
  const auto array = catalog.array("a");
  const auto shard = catalog.shard(*array, {0, 0});
  stores.memory("a").remove("c/0/0");
  EXPECT_EQ(refusal_of([&] { catalog.check_unchanged(*array, *shard); }), kChanged);
  stores.memory("a").put("c/0/0", shard_bytes());
  catalog.shard(*array, {0, 0});
  stores.memory("a").remove("c/0/0");
  EXPECT_EQ(refusal_of([&] { catalog.shard(*array, {0, 0}); }), kChanged);
  EXPECT_EQ(catalog.shard(*array, {0, 0}), nullptr);
}

TEST(Catalog, an_index_is_not_used_with_the_layout_of_another_document) {
  Stores stores = with_shards();
  Catalog catalog = stores.catalog();
  catalog.shard(*catalog.array("a"), {0, 0});
  stores.memory("a").put("zarr.json", sharded_document());
  EXPECT_THROW(catalog.array("a"), Error);
  catalog.reset_counts();
  EXPECT_NE(catalog.shard(*catalog.array("a"), {0, 0}), nullptr);
  EXPECT_EQ(catalog.counts().shard_misses, 1u);
}

TEST(Catalog, says_where_an_index_is_wrong) {
  Stores stores = with_shards();
  stores.memory("a").put("c/0/0", shard_bytes(1));  // one byte into the index
  stores.memory("a").put("c/0/1", "too short");
  Catalog catalog = stores.catalog();
  const auto array = catalog.array("a");
  try {
    catalog.shard(*array, {0, 0});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.where().reason, "shard-index");
    EXPECT_EQ(e.where().uri, "a");
    EXPECT_EQ(e.where().store, "a");
    EXPECT_EQ(e.where().key, "c/0/0");
    EXPECT_EQ(e.where().byte_range, (std::pair<std::uint64_t, std::uint64_t>{6, 74}));
  }
  EXPECT_EQ(refusal_of([&] { catalog.shard(*array, {0, 1}); }),
            (Refusal{Status::io, ErrorKind::plain, "short-read", ""}));
  try {
    catalog.shard(*array, {0, 1});
  } catch (const Error& e) {
    EXPECT_EQ(e.where().byte_range, (std::pair<std::uint64_t, std::uint64_t>{0, 68}));
  }
}

TEST(Catalog, raw_chunks_in_a_shard_have_one_size) {
  Stores stores = with_shards();
  stores.memory("a").put("c/0/0", shard_bytes(0, 5));
  Catalog catalog = stores.catalog();
  EXPECT_EQ(refusal_of([&] { catalog.shard(*catalog.array("a"), {0, 0}); }), wrong("shard-index", ""));
}

TEST(Catalog, forgets_the_array_that_was_not_used_for_longest) {
  Stores stores;
  for (const std::string path : {"a", "b", "c"}) stores.memory(path).put("zarr.json", v3_document({}));
  Catalog catalog = stores.catalog({.arrays = 2});
  for (const std::string path : {"a", "b", "a", "c", "a", "b"}) catalog.array(path);
  EXPECT_EQ(catalog.counts().array_hits, 2u);    // both of `a`
  EXPECT_EQ(catalog.counts().array_misses, 4u);  // `b` had to go for `c`
}

TEST(Catalog, forgets_the_index_that_was_not_used_for_longest) {
  Stores stores = with_shards({"c/0/0", "c/0/1", "c/1/0"});
  Catalog catalog = stores.catalog({.shards = 2});
  const auto array = catalog.array("a");
  for (const Dims& shard : {Dims{0, 0}, Dims{0, 1}, Dims{0, 0}, Dims{1, 0}, Dims{0, 0}, Dims{0, 1}})
    catalog.shard(*array, shard);
  EXPECT_EQ(catalog.counts().shard_hits, 2u);
  EXPECT_EQ(catalog.counts().shard_misses, 4u);
}

// Bytes that an array and one index take, found by trying.
std::uint64_t bytes_for_one_index() {
  for (std::uint64_t bytes = 256;; bytes += 16) {
    Stores stores = with_shards();
    Catalog catalog = stores.catalog({.bytes = bytes});
    try {
      const auto array = catalog.array("a");
      catalog.shard(*array, {0, 0});
      return bytes;
    } catch (const Error&) {
    }
  }
}

TEST(Catalog, bytes_in_use_are_an_end_and_bytes_not_in_use_make_room) {
  const auto bytes = bytes_for_one_index();
  Stores stores = with_shards({"c/0/0", "c/0/1"});
  Catalog catalog = stores.catalog({.bytes = bytes});
  const auto array = catalog.array("a");
  auto shard = catalog.shard(*array, {0, 0});
  EXPECT_EQ(refusal_of([&] { catalog.shard(*array, {0, 1}); }), (Refusal{Status::oom, ErrorKind::plain, "memory", ""}));
  EXPECT_EQ(refusal_of([&] { catalog.shard(*array, {0, 0}); }), accepted());
  shard.reset();
  EXPECT_EQ(refusal_of([&] { catalog.shard(*array, {0, 1}); }), accepted());
  catalog.reset_counts();
  catalog.shard(*array, {0, 0});
  EXPECT_EQ(catalog.counts().shard_misses, 1u);
}

TEST(Catalog, arrays_and_indices_share_the_bytes) {
  const auto bytes = bytes_for_one_index();
  Stores stores = with_shards();
  stores.memory("b").put("zarr.json", v3_document({}));
  Catalog catalog = stores.catalog({.bytes = bytes});
  catalog.shard(*catalog.array("a"), {0, 0});
  EXPECT_EQ(refusal_of([&] { catalog.array("b"); }), accepted());
  catalog.reset_counts();
  catalog.array("a");
  EXPECT_EQ(catalog.counts().array_misses, 1u);
}

TEST(Catalog, what_is_held_outlives_clear) {
  Stores stores = with_shards();
  auto catalog = std::make_unique<Catalog>(stores.catalog());
  const auto array = catalog->array("a");
  const auto shard = catalog->shard(*array, {0, 0});
  catalog->clear();
  EXPECT_NE(catalog->array("a").get(), array.get());
  catalog.reset();
  EXPECT_EQ(array->rank(), 2u);
  EXPECT_EQ(shard->index->chunk_count(), 4u);
}

// Blocks the first open of a document until it is released, and counts all opens.
class GateStore final : public Store {
 public:
  explicit GateStore(std::shared_ptr<Store> inner) : inner_(std::move(inner)) {}
  std::string name() const override { return inner_->name(); }
  std::shared_ptr<Object> open(std::string_view key) override {
    if (key == "zarr.json" && opens_++ == 0) {
      came.count_down();
      go_on.wait();
    }
    return inner_->open(key);
  }
  std::optional<Stamp> stamp(std::string_view key) override { return inner_->stamp(key); }
  std::vector<Entry> list(std::string_view prefix) override { return inner_->list(prefix); }
  int opens() const { return opens_; }

  std::latch came{1}, go_on{1};

 private:
  std::shared_ptr<Store> inner_;
  std::atomic<int> opens_{0};
};

TEST(Catalog, what_two_threads_ask_for_is_loaded_once) {
  auto memory = std::make_shared<MemoryStore>("a");
  memory->put("zarr.json", v3_document({}));
  auto gate = std::make_shared<GateStore>(memory);
  Catalog catalog({}, [&](const std::string&) { return gate; });
  std::shared_ptr<const Array> one, two;
  std::jthread first([&] { one = catalog.array("a"); });
  gate->came.wait();
  std::jthread second([&] { two = catalog.array("a"); });
  gate->go_on.count_down();
  first.join();
  second.join();
  EXPECT_EQ(one.get(), two.get());
  EXPECT_EQ(gate->opens(), 1);
  EXPECT_EQ(catalog.counts().array_misses, 1u);
  EXPECT_EQ(catalog.counts().array_hits, 1u);
}

TEST(Catalog, nothing_waits_for_the_loading_of_something_else) {
  auto slow = std::make_shared<MemoryStore>("slow"), quick = std::make_shared<MemoryStore>("quick");
  slow->put("zarr.json", v3_document({}));
  quick->put("zarr.json", v3_document({}));
  auto gate = std::make_shared<GateStore>(slow);
  Catalog catalog({}, [&](const std::string& path) -> std::shared_ptr<Store> {
    if (path == "slow") return gate;
    return quick;
  });
  std::jthread first([&] { catalog.array("slow"); });
  gate->came.wait();
  EXPECT_EQ(catalog.array("quick")->rank(), 2u);
  gate->go_on.count_down();
}

TEST(Catalog, who_waited_for_a_failure_tries_for_himself) {
  auto memory = std::make_shared<MemoryStore>("a");
  auto gate = std::make_shared<GateStore>(memory);
  Catalog catalog({}, [&](const std::string&) { return gate; });
  std::atomic<int> failures{0};
  const auto ask = [&] { failures += refusal_of([&] { catalog.array("a"); }).reason == "no-metadata" ? 1 : 0; };
  std::jthread first(ask);
  gate->came.wait();
  std::jthread second(ask);
  gate->go_on.count_down();
  first.join();
  second.join();
  EXPECT_EQ(failures, 2);
  EXPECT_EQ(catalog.counts().array_misses, 2u);
}

TEST(Catalog, many_threads_see_the_same_arrays_and_indices) {
  Stores stores = with_shards({"c/0/0", "c/0/1", "c/1/0", "c/1/1"});
  for (const std::string path : {"b", "d"}) stores.memory(path).put("zarr.json", sharded_document());
  Catalog catalog = stores.catalog({.arrays = 2, .shards = 2});
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (std::int64_t t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (std::int64_t i = 0; i < 200; ++i) {
          const std::string path = i % 3 == 0 ? "b" : i % 3 == 1 ? "d" : "a";
          const auto array = catalog.array(path);
          const auto shard = catalog.shard(*array, {(i / 2) % 2, (i + t) % 2});
          if ((shard != nullptr) != (path == "a") || (shard && shard->index->find(0) != ByteRange{0, 6})) ++wrong;
        }
      });
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(catalog.counts().array_hits + catalog.counts().array_misses, 800u);
}

std::shared_ptr<const Array> v2_array(Stores& stores, Catalog& catalog, std::initializer_list<Member> changes) {
  stores.memory("a").put(".zarray", v2_document(changes));
  return catalog.array("a");
}

TEST(MissingChunk, is_an_error_where_chunks_are_nested_and_no_separator_is_named) {
  Stores stores;
  stores.memory("a").put("0/1", "chunk");
  Catalog catalog = stores.catalog();
  const auto array = v2_array(stores, catalog, {});
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(refusal_of([&] { catalog.check_missing_chunk(*array, "0.0"); }),
              wrong("dimension-separator", "/dimension_separator"));
  EXPECT_EQ(stores.counts("a").lists, 1u);
}

TEST(MissingChunk, is_fill_otherwise) {
  for (const std::initializer_list<Member>& changes :
       {std::initializer_list<Member>{{"dimension_separator", "\".\""}}, {{"shape", "[10]"}, {"chunks", "[4]"}}}) {
    Stores stores;
    stores.memory("a").put("0/1", "chunk");
    Catalog catalog = stores.catalog();
    const auto array = v2_array(stores, catalog, changes);
    EXPECT_EQ(refusal_of([&] { catalog.check_missing_chunk(*array, "0.0"); }), accepted());
    EXPECT_EQ(stores.counts("a").lists, 0u);
  }
  Stores stores;
  stores.memory("a").put("0.1", "chunk");
  stores.memory("a").put("12", "a file");
  stores.memory("a").put("1x/2", "a directory of another name");
  Catalog catalog = stores.catalog();
  const auto array = v2_array(stores, catalog, {});
  for (int i = 0; i < 2; ++i) EXPECT_EQ(refusal_of([&] { catalog.check_missing_chunk(*array, "0.0"); }), accepted());
  EXPECT_EQ(stores.counts("a").lists, 1u);
}

TEST(Catalog, a_uri_of_two_mounts_is_two_arrays) {
  const auto at = [](std::int64_t size) {
    const auto memory = std::make_shared<MemoryStore>();
    memory->put("a/zarr.json", v3_document({{"shape", formatted("[{}]", size)},
                                            {"data_type", R"("uint8")"},
                                            {"chunk_grid", R"({"name":"regular","configuration":{"chunk_shape":[2]}})"},
                                            {"codecs", R"([{"name":"bytes"}])"}}));
    mount("store://twice/", memory);
    return find_mount("store://twice/a");
  };
  Catalog catalog(CatalogLimits{});
  const auto size_at = [&](const MountedUri& place) { return catalog.array(place)->shape()[0]; };
  const MountedUri first = at(4);
  EXPECT_EQ(size_at(first), 4);
  const auto opened = catalog.array("store://twice/a");
  const MountedUri second = at(6);
  EXPECT_EQ(size_at(second), 6);
  EXPECT_EQ(size_at(first), 4);
  EXPECT_EQ(catalog.array("store://twice/a")->shape()[0], 4);  // as it was opened first
  EXPECT_NE(opened->id(), catalog.array(second)->id());
  EXPECT_NE(opened->place_hash(), catalog.array(second)->place_hash());
  unmount("store://twice/");
}

TEST(Catalog, opens_directories_by_path_and_by_uri) {
  const TempDir dir;
  dir.put("zarr.json", sharded_document());
  dir.put("c/0/0", shard_bytes());
  Catalog catalog({});
  for (const std::string& uri : {dir.path(), dir.path() + "/", "file://" + dir.path()}) {
    const auto array = catalog.array(uri);
    EXPECT_EQ(array->uri(), uri);
    EXPECT_EQ(catalog.shard(*array, {0, 0})->index->find(0), (ByteRange{0, 6}));
    EXPECT_EQ(catalog.shard(*array, {1, 1}), nullptr);
  }
  dir.put("zarr.json", sharded_document());
  EXPECT_EQ(refusal_of([&] { catalog.array(dir.path()); }), kChanged);
  EXPECT_EQ(refusal_of([&] { catalog.array(dir.path("nothing")); }).reason, "no-metadata");
  EXPECT_EQ(refusal_of([&] { catalog.array("ftp://a/b"); }).reason, "uri");
  EXPECT_EQ(refusal_of([&] { catalog.array(""); }).reason, "uri");
}

}  // namespace
}  // namespace damacy
