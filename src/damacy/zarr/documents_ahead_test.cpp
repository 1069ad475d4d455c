#include "damacy/zarr/documents_ahead.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy {
namespace {

using Keys = std::vector<std::string>;

// What was asked of the stores of all nodes, as "NUMBER/KEY".
struct Asked {
  Keys expected, unexpected;
  std::uint64_t bytes = 0;  // of the last one expected
};

class AskedStore final : public Store {
 public:
  AskedStore(std::size_t number, Asked& asked) : number_(number), asked_(asked) {}
  std::string name() const override { return "asked"; }
  std::shared_ptr<Object> open(std::string_view) override { return nullptr; }
  std::optional<Stamp> stamp(std::string_view) override { return std::nullopt; }
  std::vector<Entry> list(std::string_view) override { return {}; }
  bool can_expect() const noexcept override { return true; }
  void expect(std::string_view key, const Expectation& read) override {
    EXPECT_FALSE(read.from_end);
    asked_.bytes = read.bytes;
    asked_.expected.push_back(formatted("{}/{}", number_, key));
  }
  void unexpect(std::string_view key) noexcept override {
    asked_.unexpected.push_back(formatted("{}/{}", number_, key));
  }

 private:
  const std::size_t number_;
  Asked& asked_;
};

class DocumentsAheadTest : public ::testing::Test {
 protected:
  std::unique_ptr<DocumentsAhead> ahead(std::size_t count, std::size_t documents, bool attributes = false) {
    return std::make_unique<DocumentsAhead>(
        count, [this](std::size_t number) { return std::make_shared<AskedStore>(number, asked_); }, usual_,
        DocumentsAhead::Wish{documents * kFew, attributes});
  }
  static constexpr std::size_t kFew = 64 << 10;  // bytes of the answer to each of few nodes
  Keys expected() { return std::exchange(asked_.expected, {}); }

  Asked asked_;
  const std::shared_ptr<UsualDocuments> usual_ = std::make_shared<UsualDocuments>();
};

TEST_F(DocumentsAheadTest, as_many_documents_are_ahead_as_have_memory) {
  const auto documents = ahead(5, 3);
  documents->begin(0);
  EXPECT_EQ(expected(), (Keys{"0/zarr.json", "1/zarr.json", "2/zarr.json"}));
  documents->begin(1);
  EXPECT_EQ(expected(), Keys{});
  documents->end(1);
  documents->begin(2);
  EXPECT_EQ(expected(), Keys{"3/zarr.json"});
  documents->end(0);
  documents->end(2);
  documents->begin(3);
  EXPECT_EQ(expected(), Keys{"4/zarr.json"});
}

TEST_F(DocumentsAheadTest, answers_of_many_nodes_are_smaller) {
  ahead(64, 1000)->begin(0);
  EXPECT_EQ(expected().size(), 64u);
  EXPECT_EQ(asked_.bytes, kFew);
  ahead(65, 16)->begin(0);
  EXPECT_EQ(expected().size(), 64u);
  EXPECT_EQ(asked_.bytes, DocumentsAhead::kAnswerBytes);
}

TEST_F(DocumentsAheadTest, a_node_that_was_opened_without_memory_for_its_answer_is_not_asked_for) {
  const auto documents = ahead(4, 1);
  documents->begin(0);
  documents->begin(1);
  documents->end(1);
  EXPECT_EQ(expected(), Keys{"0/zarr.json"});
  documents->end(0);
  documents->begin(2);
  EXPECT_EQ(expected(), Keys{"2/zarr.json"});
  documents->end(2);
  documents->begin(3);
  EXPECT_EQ(expected(), Keys{"3/zarr.json"});
}

TEST_F(DocumentsAheadTest, what_one_node_needed_is_asked_for_of_those_that_wait) {
  const auto documents = ahead(4, 100);
  documents->begin(0);
  documents->begin(1);
  EXPECT_EQ(expected().size(), 4u);
  usual_->note(Keys{"zarr.json", ".zarray"});
  documents->end(0);
  documents->begin(2);
  EXPECT_EQ(expected(), Keys{"3/.zarray"}) << "those that are being opened ask themselves";
}

TEST_F(DocumentsAheadTest, what_was_usual_before_is_asked_for_at_once) {
  usual_->note(Keys{"zarr.json", "0/zarr.json"});
  ahead(2, 100)->begin(0);
  EXPECT_EQ(expected(), (Keys{"0/zarr.json", "0/0/zarr.json", "1/zarr.json", "1/0/zarr.json"}));
}

TEST_F(DocumentsAheadTest, attributes_of_version_2_are_documents_too) {
  usual_->note(Keys{"zarr.json", "0/.zarray"});
  ahead(1, 100, /*attributes=*/true)->begin(0);
  EXPECT_EQ(expected(), (Keys{"0/zarr.json", "0/0/.zarray", "0/0/.zattrs"}));
}

TEST_F(DocumentsAheadTest, answers_that_a_node_did_not_take_are_dropped_at_its_end) {
  usual_->note(Keys{"zarr.json", ".zarray"});
  const auto documents = ahead(1, 100);
  documents->begin(0);
  documents->end(0);
  EXPECT_EQ(asked_.unexpected, (Keys{"0/zarr.json", "0/.zarray"}));
}

TEST_F(DocumentsAheadTest, a_cancel_drops_the_last_ones_first_and_asks_for_nothing_more) {
  const auto documents = ahead(9, 4);
  documents->begin(0);
  expected();
  documents->cancel();
  EXPECT_EQ(asked_.unexpected, (Keys{"3/zarr.json", "2/zarr.json", "1/zarr.json"})) << "0 is being opened";
  documents->end(0);
  documents->begin(1);
  EXPECT_EQ(expected(), Keys{});
}

TEST_F(DocumentsAheadTest, one_that_ends_early_drops_all) {
  ahead(3, 2)->begin(0);
  EXPECT_EQ(asked_.unexpected, (Keys{"1/zarr.json", "0/zarr.json"}));
}

TEST_F(DocumentsAheadTest, a_store_that_cannot_be_made_is_left_to_who_opens_the_node) {
  DocumentsAhead documents(3,
                           [this](std::size_t number) -> std::shared_ptr<Store> {
                             if (number == 1) throw Error(Status::inval, "no such store", "uri");
                             return std::make_shared<AskedStore>(number, asked_);
                           },
                           usual_, {100 * kFew, false});
  documents.begin(0);
  EXPECT_EQ(expected(), (Keys{"0/zarr.json", "2/zarr.json"}));
}

TEST(UsualDocuments, are_those_of_the_last_nodes) {
  UsualDocuments usual;
  EXPECT_EQ(usual.known().keys, Keys{"zarr.json"});
  usual.note(Keys{"zarr.json", ".zarray"});
  EXPECT_EQ(usual.known().keys, (Keys{"zarr.json", ".zarray"}));
  const std::uint64_t version = usual.known().version;
  for (int i = 0; i < 32; ++i) usual.note(Keys{"zarr.json"});
  EXPECT_EQ(usual.known().version, version);
  usual.note(Keys{"zarr.json"});
  EXPECT_EQ(usual.known().keys, Keys{"zarr.json"});
  EXPECT_NE(usual.known().version, version);
}

TEST(UsualDocuments, are_few) {
  UsualDocuments usual;
  for (int i = 0; i < 20; ++i) usual.note(Keys{formatted("{}/zarr.json", i)});
  EXPECT_EQ(usual.known().keys.size(), 8u);
  EXPECT_EQ(usual.known().keys.back(), "19/zarr.json");
}

}  // namespace
}  // namespace damacy
