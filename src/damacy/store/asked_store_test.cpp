#include "damacy/store/asked_store.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance/store_suite.h"
#include "damacy/core/formatted.h"
#include "damacy/store/storage_watch.h"
#include "fakes/temp_dir.h"
#include "support/error_of.h"
#include "support/eventually.h"

namespace damacy {
namespace {

using What = Question::What;

// Answers as a directory of files does, each question on a thread of its own; the first bytes come with the size.
class FileAsker final : public Asker {
 public:
  explicit FileAsker(const std::string& root) : files_(make_file_store(root, 16)) {}

  std::shared_ptr<StoreAnswer> ask(const Question& question) override {
    const auto answer = std::make_shared<StoreAnswer>();
    std::thread([files = files_, answer, question, key = std::string(question.key)] {
      const auto failure = failure_of([&] { give(*files, *answer, question, key); });
      if (failure) answer->fail(*failure);
    }).detach();
    return answer;
  }
  std::optional<Error> why_ended() override { return std::nullopt; }

 private:
  static constexpr std::size_t kHead = 4;

  static void give(Store& files, StoreAnswer& answer, const Question& question, const std::string& key) {
    if (question.what == What::list) return answer.entries(files.list(key));
    if (question.what == What::stamp) {
      const auto stamp = files.stamp(key);
      return stamp ? answer.found(found(*stamp), {}) : answer.absent();
    }
    const auto object = files.open(key);
    if (!object) return answer.absent();
    const bool is_read = question.what == What::read;
    const std::uint64_t size = is_read ? question.size : std::min<std::uint64_t>(kHead, object->stamp().size);
    const auto bytes = std::make_shared<std::vector<std::byte>>(size);
    object->read_exact(is_read ? question.offset : 0, *bytes);
    if (is_read)
      answer.bytes({*bytes, bytes});
    else
      answer.found(found(object->stamp()), *bytes);
  }
  static StoreAnswer::Found found(const Stamp& stamp) {
    return {stamp.size, formatted("{}", stamp.inode), stamp.modified_ns};
  }

  const std::shared_ptr<Store> files_;
};

struct AskedFixture {
  Store& store() { return *asked; }
  void put(std::string_view key, std::string_view bytes) { directory.put(key, bytes); }

  TempDir directory;
  std::shared_ptr<Store> asked =
      make_asked_store(std::make_shared<FileAsker>(directory.path()), "asked", Clock::Time::zero());
};

INSTANTIATE_TYPED_TEST_SUITE_P(Asked, StoreSuite, AskedFixture);

struct Answer final : StoreAnswer {
  std::atomic<int> settlings{0}, cancels{0};
  void settled() noexcept override { ++settlings; }
  void cancel() noexcept override { ++cancels; }
};

// Each question is answered by the test.
class ScriptedAsker final : public Asker {
 public:
  std::shared_ptr<StoreAnswer> ask(const Question& question) override {
    ++questions;
    last = std::make_shared<Answer>();
    if (reply) reply(*last, question);
    return last;
  }
  std::optional<Error> why_ended() override { return ended; }

  std::function<void(Answer&, const Question&)> reply;
  std::shared_ptr<Answer> last;
  std::optional<Error> ended;
  int questions = 0;
};

class AskedStoreTest : public ::testing::Test {
 protected:
  std::shared_ptr<Store> store(Clock::Time revalidate = Clock::Time::zero(), std::string name = "asked") {
    return make_asked_store(asker, std::move(name), revalidate, clock);
  }
  // An object of ten bytes that is found, and whose reads are answered by `read`.
  void found_then(std::function<void(Answer&, const Question&)> read) {
    asker->reply = [read = std::move(read)](Answer& answer, const Question& question) {
      if (question.what == What::read)
        read(answer, question);
      else
        answer.found({10, "one", 0}, {});
    };
  }
  static Error error_of_read(Object& object) {
    std::vector<std::byte> bytes(4);
    return error_of([&] { object.read_exact(2, bytes); });
  }

  std::shared_ptr<ScriptedAsker> asker = std::make_shared<ScriptedAsker>();
  std::shared_ptr<ManualClock> clock = std::make_shared<ManualClock>();
};

TEST_F(AskedStoreTest, a_question_names_what_is_wanted_of_which_version) {
  const auto all = std::make_shared<std::vector<std::byte>>(4, std::byte{7});
  found_then([&](Answer& answer, const Question& question) {
    EXPECT_EQ(question.key, "a/b");
    EXPECT_EQ(question.offset, 2u);
    EXPECT_EQ(question.size, 4u);
    EXPECT_EQ(question.version, "one");
    EXPECT_EQ(question.object_size, 10u);
    answer.bytes({*all, all});
  });
  std::vector<std::byte> bytes(4);
  store()->open("a/b")->read_exact(2, bytes);
  EXPECT_EQ(bytes, *all);
  asker->last.reset();
  EXPECT_EQ(all.use_count(), 1);  // the answer let go of it
}

TEST_F(AskedStoreTest, only_the_first_answer_counts) {
  asker->reply = [](Answer& answer, const Question&) {
    answer.found({10, "one", 0}, {});
    answer.absent();
    answer.fail(Error(Status::io, "too late"));
  };
  EXPECT_TRUE(store()->open("key"));
  EXPECT_EQ(asker->last->settlings, 1);
  EXPECT_EQ(asker->last->cancels, 0);
}

TEST_F(AskedStoreTest, what_was_answered_wrongly_is_an_error_with_the_place) {
  const auto three = std::make_shared<std::vector<std::byte>>(3);
  found_then([&](Answer& answer, const Question&) { answer.bytes({*three, three}); });
  const auto object = store()->open("key");
  const Error wrong = error_of_read(*object);
  EXPECT_EQ(wrong.message(), "the store returned 3 bytes for a range of 4");
  EXPECT_EQ(wrong.where().reason, "range");
  EXPECT_EQ(wrong.where().key, "key");
  EXPECT_EQ(wrong.where().store, "asked");
  EXPECT_EQ(wrong.where().byte_range, (std::pair<std::uint64_t, std::uint64_t>{2, 6}));

  found_then([](Answer& answer, const Question&) { answer.absent(); });
  EXPECT_EQ(error_of_read(*object).where().reason, "changed");
  found_then([](Answer& answer, const Question&) { answer.fail(Error(Status::io, "broken", "io")); });
  EXPECT_EQ(error_of_read(*object).message(), "broken");
}

TEST_F(AskedStoreTest, a_version_is_believed_as_long_as_it_may_be) {
  found_then([](Answer& answer, const Question&) { answer.absent(); });
  const auto believing = store(std::chrono::seconds(2));
  const auto object = believing->open("key");
  EXPECT_EQ(believing->stamp("key"), object->stamp());
  EXPECT_EQ(asker->questions, 1);
  clock->advance(std::chrono::seconds(2));
  EXPECT_TRUE(believing->stamp("key"));
  EXPECT_EQ(asker->questions, 2);
  error_of_read(*object);  // "changed"
  EXPECT_EQ(asker->questions, 3);
  EXPECT_TRUE(believing->stamp("key"));
  EXPECT_EQ(asker->questions, 4);

  const auto doubting = store();
  EXPECT_TRUE(doubting->stamp("key"));
  EXPECT_TRUE(doubting->stamp("key"));
  EXPECT_EQ(asker->questions, 6);
}

TEST_F(AskedStoreTest, stamps_of_two_stores_and_of_a_child_differ) {
  found_then([](Answer& answer, const Question&) { answer.absent(); });
  const auto one = store(), other = store();
  const Stamp stamp = one->stamp("key").value();
  EXPECT_EQ(one->stamp("key"), stamp);
  EXPECT_NE(other->stamp("key"), stamp);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(one->stamp("key") == stamp ? 1 : 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(AskedStoreTest, who_waits_gives_up_when_no_answer_comes_any_more) {
  asker->ended = Error(Status::shutdown, "the language ended", "closed");
  const Error error = error_of([&] { store()->open("key"); });
  EXPECT_EQ(error.message(), "the language ended");
  EXPECT_EQ(error.where().key, "key");
  EXPECT_EQ(asker->last->cancels, 1);
  asker->last->found({10, "one", 0}, {});  // late: dropped
  EXPECT_EQ(asker->last->settlings, 0);
  EXPECT_FALSE(asker->last->is_settled());
}

TEST_F(AskedStoreTest, who_waits_gives_up_when_its_reads_are_cancelled) {
  StorageWatch watch(clock);
  std::atomic<bool> waits = false;
  asker->reply = [&](Answer&, const Question&) { waits = true; };
  std::optional<Error> error;
  std::jthread reader([&, store = store()] {
    watch.attach_thread();
    error = error_of([&] { store->open("key"); });
  });
  ASSERT_TRUE(testing::eventually([&] { return waits.load(); }));
  watch.cancel_remote();
  reader.join();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->where().reason, "closed");
  EXPECT_EQ(asker->last->cancels, 1);
}

TEST_F(AskedStoreTest, only_stores_that_are_asked_have_an_asker) {
  EXPECT_EQ(asker_of(*store()), asker.get());
  const TempDir directory;
  EXPECT_EQ(asker_of(*make_file_store(directory.path(), 1)), nullptr);
}

}  // namespace
}  // namespace damacy
