#include "damacy/core/error.h"

#include <new>
#include <utility>

#include <gtest/gtest.h>

namespace damacy {
namespace {

TEST(Error, reads_from_the_large_to_the_small) {
  Error error(Status::io, "short read: 12 of 40 bytes");
  error.at_bytes(40, 80)
      .at_chunk({0, 5})
      .at_key("c/0/1")
      .at_uri("/data/a.zarr")
      .at_stream_index(99)
      .at_batch(12, {})
      .in_stage("pop");
  EXPECT_STREQ(error.what(),
               "pop: batch 12: sample 99: /data/a.zarr: shard c/0/1: chunk (0, 5): bytes 40-80: short read: 12 of 40 "
               "bytes (io error)");
}

TEST(Error, a_metadata_document_is_no_shard) {
  Error error = Error::unsupported("codec 'zfp' is not supported", "codec");
  error.at_pointer("/codecs/1").at_key("zarr.json").at_uri("vol.zarr");
  EXPECT_STREQ(error.what(), "vol.zarr: zarr.json: /codecs/1: codec 'zfp' is not supported (decode error, codec)");
}

TEST(Error, only_what_holds_other_chunks_is_a_shard) {
  const auto line = [](std::string_view key, std::optional<std::vector<std::int64_t>> chunk) {
    ErrorWhere where;
    where.key = key;
    where.chunk = std::move(chunk);
    return describe(Status::io, "gone", where);
  };
  EXPECT_EQ(line("c/0/12", {{0, 12}}), "object c/0/12: chunk (0, 12): gone (io error)");
  EXPECT_EQ(line("s0/3.12", {{3, 12}}), "object s0/3.12: chunk (3, 12): gone (io error)");
  EXPECT_EQ(line("c/0/12", {{0, 2}}), "shard c/0/12: chunk (0, 2): gone (io error)");
  EXPECT_EQ(line("c/0/12", {{1, 0, 12}}), "shard c/0/12: chunk (1, 0, 12): gone (io error)");
  EXPECT_EQ(line("c", {std::vector<std::int64_t>{}}), "object c: chunk (): gone (io error)");
  EXPECT_EQ(line("c/0/12", std::nullopt), "object c/0/12: gone (io error)");
}

TEST(Error, names_a_shard_that_is_marked_as_one) {
  Error error(Status::decode, "bad", "frame");
  error.at_key("c/0/0").at_chunk({0, 0}).in_shard();
  EXPECT_STREQ(error.what(), "shard c/0/0: chunk (0, 0): bad (decode error, frame)");
  Error lone(Status::decode, "bad", "frame");
  lone.at_key("c/0/0").at_chunk({0, 0}).in_shard(false);
  EXPECT_STREQ(lone.what(), "object c/0/0: chunk (0, 0): bad (decode error, frame)");
}

TEST(Error, the_first_to_know_where_knew_best) {
  Error error(Status::io, "gone");
  error.at_key("c/0").at_key("c/1");
  EXPECT_EQ(error.where().key, "c/0");
}

TEST(Error, a_copy_keeps_what_it_was_when_the_original_learns_more) {
  Error error(Status::io, "gone");
  const Error copy = error;
  error.at_key("c/0").with_errno(5);
  EXPECT_EQ(copy.where().key, "");
  EXPECT_EQ(copy.system_errno(), 0);
  EXPECT_STREQ(copy.what(), "gone (io error)");
  EXPECT_STREQ(error.what(), "object c/0: gone (io error)");
}

TEST(Error, one_that_was_moved_from_can_still_be_read) {
  Error error(Status::io, "gone");
  const Error moved = std::move(error);
  EXPECT_STREQ(error.what(), moved.what());  // NOLINT(bugprone-use-after-move)
}

TEST(FailureOf, is_what_a_step_throws) {
  EXPECT_FALSE(failure_of([] {}));
  EXPECT_EQ(failure_of([] { throw Error(Status::dtype, "bad"); })->status(), Status::dtype);
  EXPECT_EQ(failure_of([] { throw std::bad_alloc(); })->status(), Status::oom);
  EXPECT_EQ(failure_of([] { throw std::logic_error("wrong"); })->message(), "internal: wrong");
}

TEST(FailureOf, lets_what_is_no_exception_of_the_standard_pass) {
  struct Passing {};
  EXPECT_THROW(static_cast<void>(failure_of([] { throw Passing(); })), Passing);
}

TEST(Extended, what_cannot_be_added_takes_the_place_of_the_error) {
  const Error gone(Status::io, "gone");
  EXPECT_EQ(extended(gone, [](Error& error) { error.at_key("c/0"); }).where().key, "c/0");
  EXPECT_EQ(extended(gone, [](Error&) { throw std::bad_alloc(); }).status(), Status::oom);
  EXPECT_EQ(gone.where().key, "");
}

TEST(OneLine, escapes_controls_and_bad_utf8) {
  EXPECT_EQ(one_line("a\nb\xff"
                     "c\x7f",
                     100),
            "a\\x0ab\\xffc\\x7f");
  EXPECT_EQ(one_line("\xc3\xa4\xed\xa0\x80", 100), "\xc3\xa4\\xed\\xa0\\x80");
}

TEST(OneLine, escapes_controls_and_line_ends_beyond_ascii) {
  EXPECT_EQ(one_line("a\xc2\x85"
                     "b\xe2\x80\xa8\xe2\x80\xa9\xc2\xa0\xe2\x80\xaa",
                     100),
            "a\\xc2\\x85b\\xe2\\x80\\xa8\\xe2\\x80\\xa9\xc2\xa0\xe2\x80\xaa");
}

TEST(Error, a_uri_keeps_its_secrets_to_itself) {
  EXPECT_EQ(without_secrets("https://user:hunter2@host/a?token=hunter2#x"), "https://host/a");
  EXPECT_EQ(without_secrets("https://host?token=hunter2"), "https://host");
  EXPECT_EQ(without_secrets("/data/a?b@c"), "/data/a?b@c");
}

TEST(OneLine, cuts_in_the_middle) {
  const std::string cut = one_line(std::string(100, 'a') + std::string(100, 'b'), 45);
  EXPECT_EQ(cut, std::string(20, 'a') + " ... " + std::string(20, 'b'));
}

}  // namespace
}  // namespace damacy
