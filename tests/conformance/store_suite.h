// What every Store does, whatever is behind it. A new implementation writes a fixture of two functions and joins:
//   struct MyFixture { Store& store(); void put(std::string_view key, std::string_view bytes); };
//   INSTANTIATE_TYPED_TEST_SUITE_P(My, StoreSuite, MyFixture);
// A store that has only objects, no directories and no listings, says so: static constexpr bool kHasDirectories =
// false;
#pragma once

#include <atomic>
#include <latch>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "damacy/store/store.h"
#include "support/error_of.h"

namespace damacy {

inline std::string read_text(Object& object, std::uint64_t offset, std::size_t size) {
  std::string bytes(size, '?');
  object.read_exact(offset, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

template <class Fixture>
constexpr bool has_directories() {
  if constexpr (requires { Fixture::kHasDirectories; }) return Fixture::kHasDirectories;
  return true;
}

template <class Fixture>
class StoreSuite : public ::testing::Test {
 protected:
  Store& store() { return fixture_.store(); }
  void put(std::string_view key, std::string_view bytes) { fixture_.put(key, bytes); }

 private:
  Fixture fixture_;
};

TYPED_TEST_SUITE_P(StoreSuite);

TYPED_TEST_P(StoreSuite, reads_any_range_of_an_object) {
  this->put("c/0/1", "hello, world");
  const auto object = this->store().open("c/0/1");
  ASSERT_TRUE(object);
  EXPECT_EQ(object->stamp().size, 12u);
  EXPECT_EQ(read_text(*object, 0, 12), "hello, world");
  EXPECT_EQ(read_text(*object, 7, 5), "world");
  EXPECT_EQ(read_text(*object, 12, 0), "");
}

TYPED_TEST_P(StoreSuite, an_empty_object_is_an_object) {
  this->put("empty", "");
  const auto object = this->store().open("empty");
  ASSERT_TRUE(object);
  EXPECT_EQ(object->stamp().size, 0u);
}

TYPED_TEST_P(StoreSuite, what_is_absent_is_empty_and_no_error) {
  this->put("a/file", "x");
  EXPECT_FALSE(this->store().open("nothing"));
  EXPECT_FALSE(this->store().open("no/such/place"));
  EXPECT_FALSE(this->store().open("a/file/below"));
  EXPECT_FALSE(this->store().stamp("nothing"));
  EXPECT_FALSE(this->store().stamp("a/file/below"));
}

TYPED_TEST_P(StoreSuite, a_directory_is_no_object) {
  this->put("a/file", "x");
  if (!has_directories<TypeParam>()) {
    EXPECT_FALSE(this->store().open("a"));
    EXPECT_FALSE(this->store().stamp("a"));
    return;
  }
  const Error error = error_of([&] { this->store().open("a"); });
  EXPECT_EQ(error.status(), Status::io);
  EXPECT_EQ(error.where().reason, "io");
  EXPECT_EQ(error.where().key, "a");
  EXPECT_EQ(error_of([&] { this->store().stamp("a"); }).status(), Status::io);
}

TYPED_TEST_P(StoreSuite, the_end_before_the_wanted_byte_is_an_error_with_the_numbers) {
  this->put("short", "0123456789");
  const auto object = this->store().open("short");
  std::vector<std::byte> bytes(8);
  const Error error = error_of([&] { object->read_exact(6, bytes); });
  EXPECT_EQ(error.status(), Status::io);
  EXPECT_EQ(error.where().reason, "short-read");
  EXPECT_EQ(error.message(), "short read: 4 of 8 bytes");
  EXPECT_EQ(error.where().key, "short");
  EXPECT_EQ(error.where().store, this->store().name());
  EXPECT_EQ(error.where().byte_range, (std::pair<std::uint64_t, std::uint64_t>{6, 14}));
}

TYPED_TEST_P(StoreSuite, an_offset_far_behind_the_end_is_a_short_read) {
  this->put("short", "0123456789");
  const auto object = this->store().open("short");
  std::vector<std::byte> bytes(8);
  for (const std::uint64_t offset : {std::uint64_t{10}, std::uint64_t{1} << 40, (std::uint64_t{1} << 63) - 4,
                                     std::uint64_t{1} << 63, ~std::uint64_t{0}, ~std::uint64_t{0} - 8}) {
    EXPECT_EQ(error_of([&] { object->read_exact(offset, bytes); }).where().reason, "short-read") << offset;
  }
}

TYPED_TEST_P(StoreSuite, the_stamp_is_that_of_the_opened_object_until_it_is_put_again) {
  this->put("key", "one");
  const auto object = this->store().open("key");
  EXPECT_EQ(this->store().stamp("key"), object->stamp());
  this->put("key", "longer");
  EXPECT_NE(this->store().stamp("key"), object->stamp());
  const auto again = this->store().open("key");
  EXPECT_EQ(this->store().stamp("key"), again->stamp());
  EXPECT_EQ(read_text(*again, 0, 6), "longer");
  this->put("key", "as long");
  const Stamp before = this->store().stamp("key").value();
  const auto open = this->store().open("key");  // a file that is in use keeps its inode
  this->put("key", "LONG AS");
  EXPECT_NE(this->store().stamp("key"), before);
}

TYPED_TEST_P(StoreSuite, lists_what_is_directly_below_sorted) {
  this->put("b/x/deep", "");
  this->put("b/w", "");
  this->put("a", "");
  this->put("c!", "");
  const auto names = [](const std::vector<Entry>& entries) {
    std::string all;
    for (const Entry& entry : entries) all += formatted("{}{}", entry.name, entry.is_directory ? "/ " : " ");
    return all;
  };
  if (!has_directories<TypeParam>()) {
    EXPECT_EQ(names(this->store().list("")), "");
    return;
  }
  EXPECT_EQ(names(this->store().list("")), "a b/ c! ");
  EXPECT_EQ(names(this->store().list("b")), "w x/ ");
  EXPECT_EQ(names(this->store().list("nothing")), "");
  EXPECT_EQ(names(this->store().list("a")), "");
}

TYPED_TEST_P(StoreSuite, refuses_what_is_no_key) {
  const std::string nul("a\0b", 3);
  const std::string long_key(Limits::key_bytes + 1, 'k');
  std::string deep = "0";
  for (std::uint64_t i = 0; i < Limits::key_components; ++i) deep += "/0";
  for (const std::string& key :
       {std::string(), std::string("/a"), std::string("a/"), std::string("a//b"), std::string("."),
        std::string("a/./b"), std::string(".."), std::string("a/../b"), nul, long_key, deep}) {
    EXPECT_EQ(error_of([&] { this->store().open(key); }).status(), Status::inval) << key;
    EXPECT_EQ(error_of([&] { this->store().stamp(key); }).status(), Status::inval) << key;
    if (key.empty()) continue;  // the root's prefix
    EXPECT_EQ(error_of([&] { this->store().list(key); }).status(), Status::inval) << key;
  }
}

TYPED_TEST_P(StoreSuite, names_that_look_like_more_than_they_are_stay_names) {
  for (const std::string_view key : {"...", "a..b", "..a", "%2e%2e", "a b", "~", "c\\d", "caf\xc3\xa9", "\xff\xfe"}) {
    this->put(key, key);
    const auto object = this->store().open(key);
    ASSERT_TRUE(object) << key;
    EXPECT_EQ(read_text(*object, 0, key.size()), key);
  }
}

TYPED_TEST_P(StoreSuite, many_threads_read_one_object) {
  std::string content;
  for (int i = 0; i < 4096; ++i) content += static_cast<char>(i * 7);
  this->put("shared", content);
  const auto object = this->store().open("shared");
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (std::size_t i = 0; i < 200; ++i) {
          const std::size_t offset = (t * 977 + i * 131) % 4000;
          if (read_text(*object, offset, 96) != content.substr(offset, 96)) ++wrong;
        }
      });
  }
  EXPECT_EQ(wrong, 0);
}

// A started read, as an engine makes it.
inline std::string start_and_read(Object& object, std::uint64_t offset, std::size_t size) {
  std::string bytes(size, '?');
  std::latch landed(1);
  std::atomic<int> calls{0};
  const auto read = object.start_read(offset, std::as_writable_bytes(std::span(bytes)), [&] {
    ++calls;
    landed.count_down();
  });
  landed.wait();
  read->finish();
  EXPECT_EQ(calls, 1);
  return bytes;
}

TYPED_TEST_P(StoreSuite, held_bytes_are_those_of_a_read_and_stay) {
  this->put("c/0/1", "hello, world");
  auto object = this->store().open("c/0/1");
  const auto text_of = [](const HeldBytes& held) {
    return std::string(reinterpret_cast<const char*>(held.bytes.data()), held.bytes.size());
  };
  const HeldBytes some = object->held(7, 5), all = object->held(0, 12);
  for (const auto& [offset, bytes] : {std::pair<std::uint64_t, std::uint64_t>{8, 5}, {13, 1}, {0, ~std::uint64_t{0}}})
    EXPECT_FALSE(object->held(offset, bytes).owner) << offset;
  EXPECT_FALSE(object->held(~std::uint64_t{0}, 2).owner);
  EXPECT_EQ(start_and_read(*object, 0, 12), "hello, world");
  object.reset();
  EXPECT_EQ(text_of(some), some.owner ? "world" : "");
  EXPECT_EQ(text_of(all), all.owner ? "hello, world" : "");
}

TYPED_TEST_P(StoreSuite, a_started_read_gives_what_a_read_gives) {
  this->put("c/0/1", "hello, world");
  const auto object = this->store().open("c/0/1");
  EXPECT_EQ(start_and_read(*object, 0, 12), "hello, world");
  EXPECT_EQ(start_and_read(*object, 7, 5), "world");
  EXPECT_EQ(start_and_read(*object, 0, 1), "h");
  EXPECT_EQ(start_and_read(*object, 11, 1), "d");
  EXPECT_EQ(start_and_read(*object, 12, 0), "");
  const Error error = error_of([&] { start_and_read(*object, 8, 5); });
  EXPECT_EQ(error.where().reason, "short-read");
  EXPECT_EQ(error.message(), "short read: 4 of 5 bytes");
  EXPECT_EQ(error.where().key, "c/0/1");
  EXPECT_EQ(error_of([&] { start_and_read(*object, ~std::uint64_t{0}, 2); }).where().reason, "short-read");
}

TYPED_TEST_P(StoreSuite, a_started_read_may_be_dropped_and_an_expected_object_may_be_absent) {
  this->put("key", "0123456789");
  this->store().expect("key", {.bytes = 4, .from_end = true});
  this->store().expect("nothing", {.bytes = 4});
  const auto object = this->store().open("key");
  std::string bytes(10, '?');
  std::atomic<int> calls{0};
  object->start_read(0, std::as_writable_bytes(std::span(bytes)), [&] { ++calls; }).reset();
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(this->store().open("nothing"));
  EXPECT_EQ(read_text(*object, 0, 10), "0123456789");
}

REGISTER_TYPED_TEST_SUITE_P(StoreSuite, reads_any_range_of_an_object, an_empty_object_is_an_object,
                            what_is_absent_is_empty_and_no_error, a_directory_is_no_object,
                            the_end_before_the_wanted_byte_is_an_error_with_the_numbers,
                            an_offset_far_behind_the_end_is_a_short_read,
                            the_stamp_is_that_of_the_opened_object_until_it_is_put_again,
                            lists_what_is_directly_below_sorted, refuses_what_is_no_key,
                            names_that_look_like_more_than_they_are_stay_names, many_threads_read_one_object,
                            held_bytes_are_those_of_a_read_and_stay, a_started_read_gives_what_a_read_gives,
                            a_started_read_may_be_dropped_and_an_expected_object_may_be_absent);

}  // namespace damacy
