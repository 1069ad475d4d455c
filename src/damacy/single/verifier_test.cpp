#include "damacy/single/verifier.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include "damacy/core/formatted.h"
#include "damacy/store/memory_store.h"
#include "damacy/store/reference_store.h"
#include "damacy/store/storage_watch.h"
#include "fakes/hung_store.h"
#include "support/tiny_zarr.h"

namespace damacy {
namespace {

using testing::HungStore;

class Verifiers : public ::testing::Test {
 protected:
  Verifiers() { testing::write_array(dir_.path(), {40, 64}, {8, 16}); }

  Verifier verifier() const {
    return Verifier(dir_.path().string(), readers_, {{}, clock_},
                    [store = store_](const std::string&) { return store; });
  }
  // Runs `work`, and lets the time of the `count`-th call that hangs pass.
  template <class Work>
  auto past_deadline(std::size_t count, Work work) const {
    std::thread turns([this, count] {
      store_->wait_until_hung(count);
      clock_->advance(std::chrono::seconds(60));
    });
    const auto result = work();
    turns.join();
    return result;
  }

  const testing::TempDir dir_{"verifier"};
  const std::shared_ptr<HungStore> store_ =
      std::make_shared<HungStore>(make_file_store(dir_.path().string(), /*open_files=*/8));
  const std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>();
  const std::shared_ptr<SelectionReaders> readers_ = std::make_shared<SelectionReaders>(1, IndexCache(), clock_);
};

TEST_F(Verifiers, count_good_chunks_missing_ones_and_bad_ones) {
  std::filesystem::remove(dir_.path() / "c.0.3");
  std::filesystem::resize_file(dir_.path() / "c.2.1", 100);
  const VerifyReport report = verifier().verify(0, 20);
  EXPECT_EQ(report.chunks, 18);
  EXPECT_EQ(report.missing, 1);
  ASSERT_EQ(report.bad.size(), 1u);
  EXPECT_EQ(report.bad.front().where().key, "c.2.1");
}

TEST_F(Verifiers, count_chunks_that_no_checksum_covers) {
  EXPECT_EQ(verifier().verify(0, 20).unguarded, 20);
}

TEST_F(Verifiers, go_on_behind_a_chunk_that_storage_does_not_answer_for) {
  const Verifier all = verifier();
  std::size_t hung = 0;
  for (const auto call : {HungStore::Call::open, HungStore::Call::read}) {
    store_->hang(call, "c.1.2", 1);
    const VerifyReport report = past_deadline(++hung, [&] { return all.verify(0, 20); });
    EXPECT_EQ(report.chunks, 19);
    ASSERT_EQ(report.bad.size(), 1u);
    const Error& bad = report.bad.front();
    EXPECT_EQ(bad.status(), Status::io);
    EXPECT_EQ(bad.where().reason, "deadline");
    EXPECT_EQ(bad.where().key, "c.1.2");
    EXPECT_EQ(bad.where().uri, dir_.path().string());
    if (call == HungStore::Call::read) {
      EXPECT_EQ(bad.where().chunk, (std::vector<std::int64_t>{1, 2}));
    }
    store_->let_go();
  }
}

// Two shards of 600 chunks with a checksum, one behind the other. The index of the second shard is wrong.
class VerifiersOfShards : public ::testing::Test {
 protected:
  static constexpr std::size_t kChunks = 600;

  VerifiersOfShards() {
    inner_->put("zarr.json", R"({"zarr_format": 3, "node_type": "array", "shape": [2400], "data_type": "uint8",
        "fill_value": 9, "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1200]}},
        "chunk_key_encoding": {"name": "default"},
        "codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [2],
          "codecs": [{"name": "bytes"}, {"name": "crc32c"}],
          "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}}]})");
    inner_->put("c/0", shard());
    std::string wrong = shard();
    wrong.back() = '\1';  // of the size of the last chunk
    inner_->put("c/1", wrong);
  }
  static std::string shard() {
    std::string chunks;
    std::vector<std::uint64_t> index;
    for (std::size_t chunk = 0; chunk < kChunks; ++chunk) {
      index.insert(index.end(), {chunks.size(), 6});
      chunks += "\1\2\x52\x9f\xf8\x03";
    }
    return formatted("{}{}", chunks, std::string_view(reinterpret_cast<const char*>(index.data()), 16 * kChunks));
  }
  Verifier verifier() const {
    return Verifier("a", readers_, {{}, clock_}, [store = store_](const std::string&) { return store; });
  }

  const std::shared_ptr<MemoryStore> inner_ = std::make_shared<MemoryStore>("a");
  const std::shared_ptr<HungStore> store_ = std::make_shared<HungStore>(inner_);
  const std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>();
  const std::shared_ptr<SelectionReaders> readers_ = std::make_shared<SelectionReaders>(2, IndexCache(), clock_);
};

TEST_F(VerifiersOfShards, report_a_shard_once_whose_index_is_wrong) {
  const VerifyReport report = verifier().verify(0, 2 * kChunks);
  EXPECT_EQ(report.chunks, 600);
  EXPECT_EQ(report.unguarded, 0);
  EXPECT_EQ(report.encoded_bytes, 3600u);
  ASSERT_EQ(report.bad.size(), 1u);
  EXPECT_EQ(report.bad.front().where().key, "c/1");
}

TEST_F(VerifiersOfShards, name_a_chunk_that_does_not_decode_with_its_bytes) {
  std::string damaged = shard();
  damaged[6 * 5] ^= 1;
  inner_->put("c/0", damaged);
  const VerifyReport report = verifier().verify(0, kChunks);
  EXPECT_EQ(report.chunks, 599);
  EXPECT_EQ(report.decoded_bytes, 2u * 599);
  ASSERT_EQ(report.bad.size(), 1u);
  const ErrorWhere& where = report.bad.front().where();
  EXPECT_EQ(report.bad.front().status(), Status::decode);
  EXPECT_EQ(where.key, "c/0");
  EXPECT_TRUE(where.key_is_shard);
  EXPECT_EQ(where.chunk, (std::vector<std::int64_t>{5}));
  EXPECT_EQ(where.byte_range, (std::pair<std::uint64_t, std::uint64_t>{30, 36}));
}

TEST_F(VerifiersOfShards, check_only_the_places_that_are_asked_for) {
  const VerifyReport report = verifier().verify(250, 20);
  EXPECT_EQ(report.chunks, 20);
  EXPECT_TRUE(report.bad.empty());
}

TEST_F(VerifiersOfShards, report_all_chunks_of_a_read_that_hangs) {
  const Verifier all = verifier();
  ASSERT_EQ(all.verify(0, 1).chunks, 1);  // the index is in the catalog
  store_->hang(HungStore::Call::read, "c/0", 1);
  const VerifyReport report = all.verify(0, kChunks, [&](std::int64_t) {
    if (store_->hung() == 1) clock_->advance(std::chrono::seconds(60));
  });
  store_->let_go();
  EXPECT_EQ(report.chunks + std::ssize(report.bad), 600);
  EXPECT_GE(report.bad.size(), 88u);  // of 256, 256 and 88 chunks, each read at once
  for (const Error& bad : report.bad) EXPECT_EQ(bad.where().reason, "deadline");
}

TEST_F(VerifiersOfShards, end_at_once_when_the_caller_throws_and_leave_the_hung_read_what_it_uses) {
  store_->hang(HungStore::Call::read, "c/0", 1);
  EXPECT_THROW(verifier().verify(0, 2 * kChunks, [&](std::int64_t) { throw std::runtime_error("interrupted"); }),
               std::runtime_error);
  store_->let_go();
}

// Six chunks of four bytes. The second and the last are not stored, the third is in the document, and the others are
// parts of one file, of which the fifth is beyond the end.
class VerifiersOfReferences : public ::testing::Test {
 protected:
  VerifiersOfReferences() {
    const std::string path = (dir_.path() / "raw").string();
    std::ofstream(path) << "12345678";
    References references;
    references.add_data("zarr.json", R"({"zarr_format": 3, "node_type": "array", "shape": [24], "data_type": "uint8",
        "fill_value": 9, "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
        "chunk_key_encoding": {"name": "default"}, "codecs": [{"name": "bytes"}]})");
    references.add("c/0", path, References::Range{4, 4});
    references.add_data("c/2", "abcd");
    references.add("c/3", path, References::Range{0, 4});
    references.add("c/4", path, References::Range{8, 4});
    EXPECT_FALSE(references.finish());
    store_ = std::make_shared<HungStore>(make_reference_store("references", std::move(references)));
  }
  VerifyReport verify(const std::function<void(std::int64_t)>& look = {}) const {
    return Verifier("a", readers_, {{}, clock_}, [store = store_](const std::string&) { return store; })
        .verify(0, 6, look);
  }
  static std::vector<std::string> keys_of(const std::vector<Error>& errors) {
    std::vector<std::string> keys;
    for (const Error& error : errors) keys.push_back(error.where().key);
    return keys;
  }

  const testing::TempDir dir_{"verifier"};
  std::shared_ptr<HungStore> store_;
  const std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>();
  const std::shared_ptr<SelectionReaders> readers_ = std::make_shared<SelectionReaders>(1, IndexCache(), clock_);
};

TEST_F(VerifiersOfReferences, report_each_part_of_an_object_by_itself) {
  const VerifyReport report = verify();
  EXPECT_EQ(report.chunks, 3);
  EXPECT_EQ(report.missing, 2);
  ASSERT_EQ(keys_of(report.bad), std::vector<std::string>{"c/4"});
  EXPECT_EQ(report.bad.front().where().reason, "short-read");
}

TEST_F(VerifiersOfReferences, report_all_parts_of_an_object_that_storage_does_not_answer_for) {
  store_->hang(HungStore::Call::open, "c/3", 1);
  const VerifyReport report = verify([&](std::int64_t) {
    if (store_->hung() == 1) clock_->advance(std::chrono::seconds(60));
  });
  store_->let_go();
  EXPECT_EQ(report.chunks, 0);
  EXPECT_EQ(report.missing, 1);
  EXPECT_EQ(keys_of(report.bad), (std::vector<std::string>{"c/0", "c/2", "c/3", "c/4", "c/5"}));
  for (const Error& bad : report.bad) EXPECT_EQ(bad.where().reason, "deadline");
}

// A store that notes calls which a cancelled check would not end.
class CancellableStore final : public Store {
 public:
  explicit CancellableStore(std::shared_ptr<Store> inner) : inner_(std::move(inner)) {}
  std::size_t endless_calls() const { return *endless_; }

  std::string name() const override { return inner_->name(); }
  std::optional<Stamp> stamp(std::string_view key) override { return inner_->stamp(key); }
  std::vector<Entry> list(std::string_view prefix) override { return inner_->list(prefix); }
  std::shared_ptr<Object> open(std::string_view key) override {
    if (key == "zarr.json") return inner_->open(key);
    note(*endless_);
    return std::make_shared<CancellableObject>(inner_->open(key), endless_);
  }

 private:
  using Count = std::atomic<std::size_t>;
  static void note(Count& endless) { endless += CancelScope::current() == nullptr; }

  class CancellableObject final : public Object {
   public:
    CancellableObject(std::shared_ptr<Object> inner, std::shared_ptr<Count> endless)
        : inner_(std::move(inner)), endless_(std::move(endless)) {}
    const Stamp& stamp() const noexcept override { return inner_->stamp(); }
    void read_exact(std::uint64_t offset, std::span<std::byte> dst) override {
      note(*endless_);
      inner_->read_exact(offset, dst);
    }

   private:
    const std::shared_ptr<Object> inner_;
    const std::shared_ptr<Count> endless_;
  };

  const std::shared_ptr<Store> inner_;
  const std::shared_ptr<Count> endless_ = std::make_shared<Count>(0);
};

TEST_F(VerifiersOfShards, make_calls_to_stores_that_end_when_the_check_is_cancelled) {
  const auto store = std::make_shared<CancellableStore>(inner_);
  const Verifier all("a", readers_, {{}, clock_}, [store](const std::string&) { return store; });
  EXPECT_EQ(all.verify(0, 2 * kChunks).chunks, 600);
  EXPECT_EQ(store->endless_calls(), 0u);
}

TEST_F(Verifiers, an_array_that_storage_does_not_answer_for_is_refused) {
  store_->hang(HungStore::Call::open, "zarr.json", 1);
  const std::string reason = past_deadline(1, [&] {
    try {
      verifier();
    } catch (const Error& error) {
      return error.where().reason;
    }
    return std::string();
  });
  EXPECT_EQ(reason, "deadline");
}

}  // namespace
}  // namespace damacy
