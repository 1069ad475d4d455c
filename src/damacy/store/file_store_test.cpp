#include <cerrno>
#include <filesystem>
#include <fstream>
#include <mutex>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance/store_suite.h"
#include "damacy/core/file_calls.h"
#include "damacy/core/formatted.h"
#include "damacy/store/detail/open_files.h"
#include "fakes/temp_dir.h"

namespace damacy {
namespace {

namespace fs = std::filesystem;

// Real files behind calls that fail on request and that are counted.
class ScriptedCalls final : public detail::FileCalls {
 public:
  int fail_open = 0, fail_read = 0, fail_stat = 0;              // errno of the next failures
  int open_failures = 0, read_failures = 0, stat_failures = 0;  // how many
  std::size_t most_bytes = ~std::size_t{0};                     // a read gives no more
  int opens = 0, opened = 0, closes = 0, reads = 0, pauses = 0;

  int open(const char* path) override {
    ++opens;
    const int fd = open_failures > 0 && open_failures-- > 0 ? failed(fail_open) : FileCalls::open(path);
    if (fd >= 0) ++opened;
    return fd;
  }
  int close(int fd) noexcept override {
    ++closes;
    return FileCalls::close(fd);
  }
  int stat(const char* path, struct ::stat* found) override {
    return stat_failures > 0 && stat_failures-- > 0 ? failed(fail_stat) : FileCalls::stat(path, found);
  }
  ssize_t pread(int fd, void* to, std::size_t bytes, off_t offset) override {
    ++reads;
    return read_failures > 0 && read_failures-- > 0 ? failed(fail_read)
                                                    : FileCalls::pread(fd, to, std::min(bytes, most_bytes), offset);
  }
  void pause(int) override { ++pauses; }

 private:
  static int failed(int number) {
    errno = number;
    return -1;
  }
};

class FileStoreTest : public ::testing::Test {
 protected:
  TempDir directory;
  std::shared_ptr<ScriptedCalls> calls = std::make_shared<ScriptedCalls>();

  std::shared_ptr<Store> store(std::size_t max_open = 16) {
    return make_file_store(directory.path(), detail::make_open_files(max_open, calls));
  }
  int open_descriptors() const { return calls->opened - calls->closes; }
};

Error refused(Store& store, std::string_view key) {
  return error_of([&] { store.open(key); });
}

TEST_F(FileStoreTest, every_special_file_is_refused_at_once) {
  ASSERT_EQ(::mkfifo(directory.path("fifo").c_str(), 0600), 0);
  fs::create_directory(directory.path("directory"));
  fs::create_symlink("/dev/zero", directory.path("device"));
  fs::create_symlink("loop", directory.path("loop"));
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  directory.path("socket").copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const auto files = store();
  for (const std::string_view key : {"fifo", "directory", "device", "loop", "socket"}) {
    const Error error = refused(*files, key);
    EXPECT_EQ(error.status(), Status::io) << key;
    EXPECT_EQ(error.where().reason, "io") << key;
    EXPECT_EQ(error.where().key, key);
    EXPECT_EQ(error.where().store, directory.path());
    EXPECT_EQ(error_of([&] { files->stamp(key); }).status(), Status::io) << key;
  }
  EXPECT_EQ(refused(*files, "fifo").message(), "not a regular file but a FIFO");
  EXPECT_EQ(refused(*files, "loop").system_errno(), ELOOP);
  EXPECT_EQ(open_descriptors(), 0);
  ::close(listener);
}

TEST_F(FileStoreTest, symbolic_links_are_followed_and_dangling_ones_are_absent) {
  directory.put("far/away", "linked");
  fs::create_symlink(directory.path("far"), directory.path("near"));
  fs::create_symlink("nowhere", directory.path("dangling"));
  const auto files = store();
  EXPECT_EQ(read_text(*files->open("near/away"), 0, 6), "linked");
  EXPECT_FALSE(files->open("dangling"));
  const auto entries = files->list("");
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_FALSE(entries[0].is_directory);  // dangling
  EXPECT_TRUE(entries[2].is_directory);   // near
}

TEST_F(FileStoreTest, says_which_part_of_its_root_is_not_there) {
  directory.put("here/file", "x");
  const auto why = [&](const char* root) { return make_file_store(directory.path(root), 4)->why_absent(); };
  EXPECT_EQ(why("here"), "");
  EXPECT_EQ(why("here/"), "");
  EXPECT_EQ(why("here/none/below/"), "there is no 'none' in " + directory.path("here"));
  EXPECT_EQ(why("here/file"), directory.path("here/file") + " is not a directory");
  EXPECT_EQ(why("here/file/below"), why("here/file"));
  directory.put("here/a.zip", "x");
  EXPECT_NE(why("here/a.zip").find("zarr.storage.ZipStore(\"" + directory.path("here/a.zip") + "\")"),
            std::string::npos);
}

TEST_F(FileStoreTest, a_file_cut_off_after_opening_reads_short) {
  directory.put("key", "0123456789");
  const auto files = store();
  const auto object = files->open("key");
  fs::resize_file(directory.path("key"), 5);
  std::vector<std::byte> bytes(10);
  const Error error = error_of([&] { object->read_exact(0, bytes); });
  EXPECT_EQ(error.where().reason, "short-read");
  EXPECT_EQ(error.message(), "short read: 5 of 10 bytes");
  EXPECT_NE(files->stamp("key"), object->stamp());
}

TEST_F(FileStoreTest, a_rewrite_in_place_changes_the_stamp) {
  directory.put("key", "old");
  const auto files = store();
  const auto object = files->open("key");
  std::ofstream(directory.path("key")) << "newer";
  EXPECT_NE(files->stamp("key"), object->stamp());
  EXPECT_EQ(files->open("key")->stamp().size, 5u);
}

TEST_F(FileStoreTest, a_file_replaced_by_another_is_read_to_its_end_and_opened_anew) {
  directory.put("key", "old");
  const auto files = store();
  const auto object = files->open("key");
  directory.put("key", "new");
  EXPECT_EQ(read_text(*object, 0, 3), "old");
  EXPECT_EQ(read_text(*files->open("key"), 0, 3), "new");
  fs::remove(directory.path("key"));
  EXPECT_EQ(read_text(*object, 0, 3), "old");
  EXPECT_FALSE(files->open("key"));
}

TEST_F(FileStoreTest, an_unchanged_object_is_opened_once) {
  directory.put("key", "same");
  const auto files = store();
  const auto object = files->open("key");
  EXPECT_EQ(files->open("key"), object);
  EXPECT_EQ(calls->opens, 1);
}

TEST_F(FileStoreTest, keeps_no_more_descriptors_than_allowed_and_reopens_what_is_read_again) {
  const auto files = store(4);
  std::vector<std::shared_ptr<Object>> objects;
  for (int i = 0; i < 20; ++i) {
    directory.put(formatted("{}", i), formatted("content {}", i));
    objects.push_back(files->open(formatted("{}", i)));
    EXPECT_LE(open_descriptors(), 4);
  }
  for (int round = 0; round < 2; ++round)
    for (std::size_t i = 0; i < 20; ++i) {
      const std::string content = formatted("content {}", i);
      EXPECT_EQ(read_text(*objects[i], 0, content.size()), content);
      EXPECT_LE(open_descriptors(), 4);
    }
  objects.clear();
  EXPECT_LE(open_descriptors(), 4);
}

TEST_F(FileStoreTest, stores_that_share_their_open_files_share_the_bound) {
  const auto shared = detail::make_open_files(3, calls);
  directory.put("a/0", "a");
  directory.put("b/0", "b");
  const auto a = make_file_store(directory.path("a"), shared);
  const auto b = make_file_store(directory.path("b"), shared);
  for (int i = 1; i < 10; ++i) {
    directory.put(formatted("a/{}", i), "a");
    directory.put(formatted("b/{}", i), "b");
    EXPECT_EQ(read_text(*a->open(formatted("{}", i)), 0, 1), "a");
    EXPECT_EQ(read_text(*b->open(formatted("{}", i)), 0, 1), "b");
    EXPECT_LE(open_descriptors(), 3);
  }
}

TEST_F(FileStoreTest, the_last_owner_closes) {
  directory.put("key", "x");
  auto files = store();
  auto object = files->open("key");
  files.reset();
  EXPECT_EQ(read_text(*object, 0, 1), "x");
  EXPECT_EQ(open_descriptors(), 1);
  object.reset();
  EXPECT_EQ(open_descriptors(), 0);
}

TEST_F(FileStoreTest, an_object_reopened_must_be_what_it_was) {
  directory.put("a", "old");
  directory.put("b", "other");
  const auto files = store(1);
  const auto replaced = files->open("a");
  const auto other = files->open("b");  // takes the only descriptor
  directory.put("a", "new");
  EXPECT_EQ(error_of([&] { read_text(*replaced, 0, 3); }).where().reason, "changed");
  EXPECT_EQ(read_text(*other, 0, 5), "other");
  fs::remove(directory.path("a"));
  const Error gone = error_of([&] { read_text(*replaced, 0, 3); });
  EXPECT_EQ(gone.status(), Status::io);
  EXPECT_EQ(gone.where().reason, "changed");
  EXPECT_EQ(gone.where().key, "a");
}

TEST_F(FileStoreTest, short_reads_and_interruptions_are_invisible) {
  directory.put("key", "0123456789");
  const auto object = store()->open("key");
  calls->most_bytes = 3;
  EXPECT_EQ(read_text(*object, 0, 10), "0123456789");
  for (const int number : {EINTR, EAGAIN}) {
    calls->fail_read = number;
    calls->read_failures = 5;
    EXPECT_EQ(read_text(*object, 1, 8), "12345678");
  }
  EXPECT_EQ(calls->opens, 1);
}

TEST_F(FileStoreTest, what_may_pass_is_tried_twice_more_on_a_fresh_descriptor) {
  directory.put("key", "0123456789");
  for (const int number : {EIO, ESTALE, ETIMEDOUT, ENOMEM}) {
    const auto object = store()->open("key");
    calls->fail_read = number;
    calls->read_failures = 2;
    calls->opens = 0;
    calls->pauses = 0;
    EXPECT_EQ(read_text(*object, 2, 3), "234");
    EXPECT_EQ(calls->opens, 2);
    EXPECT_EQ(calls->pauses, 2);
    calls->read_failures = 3;
    const Error error = error_of([&] { read_text(*object, 2, 3); });
    EXPECT_EQ(error.status(), Status::io);
    EXPECT_EQ(error.where().reason, "io");
    EXPECT_EQ(error.system_errno(), number);
    EXPECT_NE(error.message().find("tried 3 times"), std::string::npos) << error.message();
    EXPECT_EQ(error.where().byte_range, (std::pair<std::uint64_t, std::uint64_t>{2, 5}));
  }
}

TEST_F(FileStoreTest, a_retry_does_not_read_on_in_another_version) {
  directory.put("key", "old old old");
  const auto object = store()->open("key");
  directory.put("key", "new new new");
  calls->fail_read = ESTALE;
  calls->read_failures = 1;
  EXPECT_EQ(error_of([&] { read_text(*object, 0, 11); }).where().reason, "changed");
}

TEST_F(FileStoreTest, other_errors_are_not_tried_again) {
  directory.put("key", "0123456789");
  const auto files = store();
  const auto object = files->open("key");
  calls->fail_read = EPERM;
  calls->read_failures = 1;
  EXPECT_EQ(error_of([&] { read_text(*object, 2, 3); }).system_errno(), EPERM);
  calls->fail_open = EACCES;
  calls->open_failures = 1;
  EXPECT_EQ(refused(*store(), "key").system_errno(), EACCES);
  EXPECT_EQ(calls->pauses, 0);
}

TEST_F(FileStoreTest, opening_and_stamping_are_tried_again_too) {
  directory.put("key", "0123456789");
  const auto files = store();
  calls->fail_open = EIO;
  calls->open_failures = 2;
  EXPECT_TRUE(files->open("key"));
  calls->fail_stat = ESTALE;
  calls->stat_failures = 2;
  EXPECT_TRUE(files->stamp("key"));
  calls->stat_failures = 3;
  EXPECT_EQ(error_of([&] { files->stamp("key"); }).system_errno(), ESTALE);
}

TEST_F(FileStoreTest, out_of_descriptors_it_closes_idle_ones_and_tries_once_more) {
  const auto files = store(8);
  for (int i = 0; i < 6; ++i) {
    directory.put(formatted("{}", i), "x");
    files->open(formatted("{}", i));
  }
  directory.put("key", "x");
  calls->fail_open = EMFILE;
  calls->open_failures = 1;
  EXPECT_TRUE(files->open("key"));
  EXPECT_EQ(calls->closes, 6);
  directory.put("next", "x");
  calls->open_failures = 2;
  const Error error = refused(*files, "next");
  EXPECT_EQ(error.system_errno(), EMFILE);
  EXPECT_EQ(error.status(), Status::io);
}

// In a child of its own, whose descriptors really run out.
int few_descriptors(const std::string& root) {
  const rlimit few{24, 24};
  if (::setrlimit(RLIMIT_NOFILE, &few) != 0) return 10;
  const auto files = make_file_store(root, 1000);
  std::vector<std::shared_ptr<Object>> objects;
  for (int i = 0; i < 100; ++i) objects.push_back(files->open(formatted("{}", i)));
  for (const auto& object : objects)
    if (!object || read_text(*object, 0, 1) != "x") return 11;
  if (files->list("").size() != 100) return 12;
  std::vector<int> taken;
  while (true) {
    const int fd = ::open("/dev/null", O_RDONLY);
    if (fd < 0) break;
    taken.push_back(fd);
  }
  try {
    make_file_store(root, 4)->open("0");
    return 13;
  } catch (const Error& error) {
    return error.system_errno() == EMFILE && error.status() == Status::io ? 0 : 14;
  }
}

TEST_F(FileStoreTest, a_process_with_few_descriptors_reads_many_files) {
  for (int i = 0; i < 100; ++i) directory.put(formatted("{}", i), "x");
  const pid_t child = ::fork();
  if (child == 0) {
    int result = 99;
    try {
      result = few_descriptors(directory.path());
    } catch (...) {
    }
    ::_exit(result);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(FileStoreTest, many_threads_share_few_descriptors) {
  for (std::size_t i = 0; i < 16; ++i) directory.put(formatted("{}", i), formatted("content {}", i));
  const auto files = make_file_store(directory.path(), 3);
  std::vector<std::shared_ptr<Object>> objects;
  for (std::size_t i = 0; i < 16; ++i) objects.push_back(files->open(formatted("{}", i)));
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (std::size_t i = 0; i < 300; ++i) {
          const std::size_t which = (i * (2 * t + 1) + t) % 16;
          const std::string content = formatted("content {}", which);
          if (i % 10 == 0) files->open(formatted("{}", which));
          if (read_text(*objects[which], 0, content.size()) != content) ++wrong;
        }
      });
  }
  EXPECT_EQ(wrong, 0);
}

TEST_F(FileStoreTest, a_relative_root_means_the_directory_of_then) {
  directory.put("array/key", "x");
  const fs::path before = fs::current_path();
  fs::current_path(directory.path());
  const auto files = make_file_store("array", 4);
  fs::current_path(before);
  EXPECT_TRUE(files->open("key"));
  EXPECT_EQ(files->name(), "array");
}

TEST_F(FileStoreTest, a_forbidden_directory_cannot_be_listed) {
  fs::create_directory(directory.path("closed"));
  fs::permissions(directory.path("closed"), fs::perms::none);
  const bool is_root = ::geteuid() == 0;
  if (is_root) {
    ASSERT_EQ(::seteuid(65534), 0);
  }  // root may list everything
  const Error error = error_of([&] { store()->list("closed"); });
  if (is_root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  EXPECT_EQ(error.system_errno(), EACCES);
  EXPECT_EQ(error.where().key, "closed");
}

}  // namespace
}  // namespace damacy
