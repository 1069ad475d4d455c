#include "damacy/store/http/answer.h"

#include <gtest/gtest.h>

#include <initializer_list>

#include "damacy/store/http/version.h"

namespace damacy::http {
namespace {

Head head_of(std::initializer_list<std::string_view> lines) {
  Head head;
  for (const std::string_view line : lines) EXPECT_TRUE(head.add_line(line)) << line;
  return head;
}

TEST(ContentRange, has_first_last_and_total) {
  const auto range = parse_content_range("bytes 5-9/100");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->first, 5u);
  EXPECT_EQ(range->last, 9u);
  EXPECT_EQ(range->total, 100u);
  EXPECT_EQ(parse_content_range("BYTES 0-0/1")->last, 0u);
  EXPECT_FALSE(parse_content_range("bytes 0-9/*")->total);
  const auto empty = parse_content_range("bytes */0");
  ASSERT_TRUE(empty);
  EXPECT_FALSE(empty->first);
  EXPECT_EQ(empty->total, 0u);
}

TEST(ContentRange, that_does_not_hold_together_is_none) {
  for (const std::string_view value :
       {"", "bytes", "bytes ", "bytes 5-4/100", "bytes 0-100/100", "bytes 0-9", "bytes 0-9/", "bytes -9/100",
        "bytes 0-9/100 ", "bytes 0 -9/100", "bytes +0-9/100", "items 0-9/100", "bytes */*", "bytes 0-9/-1",
        "bytes 0-9223372036854775808/9223372036854775809", "bytes 0-18446744073709551616/18446744073709551617"})
    EXPECT_FALSE(parse_content_range(value)) << value;
}

TEST(RetryAfter, is_at_most_a_minute) {
  EXPECT_EQ(parse_retry_after("0"), 0);
  EXPECT_EQ(parse_retry_after("7"), 7);
  EXPECT_EQ(parse_retry_after("99999999"), 60);
  for (const std::string_view value : {"", "-1", "soon", "1.5", "Mon, 23 Nov 2026 10:00:00"})
    EXPECT_FALSE(parse_retry_after(value)) << value;
}

TEST(RetryAfter, may_be_a_date_by_the_clock_of_the_server) {
  const std::string_view date = "Mon, 23 Nov 2026 10:00:00 GMT";
  EXPECT_EQ(parse_retry_after("Mon, 23 Nov 2026 10:00:07 GMT", date), 7);
  EXPECT_EQ(parse_retry_after("Mon, 23 Nov 2026 09:59:00 GMT", date), 0);
  EXPECT_EQ(parse_retry_after("Tue, 24 Nov 2026 10:00:00 GMT", date), 60);
  EXPECT_EQ(parse_retry_after("Mon, 23 Nov 2026 10:00:07 GMT", "junk").value_or(-1) % 60, 0);  // by our clock
  const Head head =
      head_of({"HTTP/1.1 503 X", "Retry-After: Mon, 23 Nov 2026 10:00:07 GMT", "Date: Mon, 23 Nov 2026 10:00:00 GMT"});
  EXPECT_EQ(head.pause(), 7);
}

TEST(Head, is_that_of_the_last_answer) {
  const Head head =
      head_of({"HTTP/1.1 100 Continue\r\n", "ETag: \"first\"\r\n", "\r\n", "HTTP/1.1 206 Partial Content\r\n",
               "content-LENGTH:  5 \r\n", "Content-Range: bytes 0-4/9\r\n", "ETag: \"a b\"\r\n",
               "Last-Modified: Mon, 23 Nov 2026 10:00:00 GMT\r\n", "X-Amz-Request-Id: 44\r\n"});
  EXPECT_EQ(head.status, 206);
  EXPECT_EQ(head.length, 5u);
  EXPECT_EQ(head.range->total, 9u);
  EXPECT_EQ(head.tag, "\"a b\"");
  EXPECT_EQ(head.modified, "Mon, 23 Nov 2026 10:00:00 GMT");
  EXPECT_EQ(head.request_id, "44");
  EXPECT_FALSE(head.is_malformed);
}

TEST(Head, takes_only_strong_tags) {
  for (const std::string_view line : {"ETag: W/\"weak\"", "ETag: bare", "ETag: \"", "ETag: \"a\"b\"", "ETag: \"\x01\""})
    EXPECT_EQ(head_of({"HTTP/1.1 200 OK", line}).tag, "") << line;
}

TEST(Head, with_numbers_that_contradict_is_malformed) {
  EXPECT_TRUE(head_of({"HTTP/1.1 200 OK", "Content-Length: -1"}).is_malformed);
  EXPECT_TRUE(head_of({"HTTP/1.1 200 OK", "Content-Length: 1", "Content-Length: 2"}).is_malformed);
  EXPECT_FALSE(head_of({"HTTP/1.1 200 OK", "Content-Length: 1", "Content-Length: 1"}).is_malformed);
  EXPECT_TRUE(head_of({"HTTP/1.1 206 X", "Content-Range: bytes 0-1/2", "Content-Range: bytes 0-1/2"}).is_malformed);
  EXPECT_TRUE(head_of({"HTTP/1.1 206 X", "Content-Range: bytes 2-1/2"}).is_malformed);
}

TEST(Head, is_complete_with_its_empty_line) {
  Head head = head_of({"HTTP/1.1 102 Processing\r\n", "\r\n"});
  EXPECT_TRUE(head.is_complete);
  EXPECT_TRUE(head.add_line("HTTP/1.1 206 Partial Content\r\n"));
  EXPECT_TRUE(head.add_line("ETag: \"a\"\r\n"));
  EXPECT_FALSE(head.is_complete);
  EXPECT_EQ(head.tag, "\"a\"");
  EXPECT_TRUE(head.add_line("\r\n"));
  EXPECT_TRUE(head.is_complete);
}

TEST(Head, is_not_changed_by_trailers) {
  Head head =
      head_of({"HTTP/1.1 206 Partial Content\r\n", "ETag: \"a\"\r\n", "Content-Range: bytes 0-4/9\r\n", "\r\n"});
  for (const std::string_view line : {"ETag: \"b\"\r\n", "Content-Range: bytes 5-8/9\r\n", "Content-Encoding: gzip\r\n",
                                      "HTTP/1.1 404 Not Found\r\n", "\r\n"})
    EXPECT_TRUE(head.add_line(line));
  EXPECT_EQ(head.status, 206);
  EXPECT_EQ(head.tag, "\"a\"");
  EXPECT_EQ(head.range->first, 0u);
  EXPECT_EQ(head.encoding, "");
  EXPECT_FALSE(head.is_malformed);
  EXPECT_TRUE(head.is_complete);
  const std::string line(1000, 'x');
  std::size_t lines = 0;
  while (lines < 10'000 && head.add_line(line)) ++lines;
  EXPECT_LT(lines, 10'000u) << "trailers have no bound";
}

TEST(Head, with_a_nul_or_a_lone_cr_is_refused) {
  EXPECT_FALSE(Head().add_line("ETag: \"a\rb\"\r\n"));
  EXPECT_FALSE(Head().add_line(std::string_view("ETag: \"a\0b\"\r\n", 12)));
}

TEST(Head, without_a_status_or_without_an_end_is_refused) {
  EXPECT_FALSE(Head().add_line("HTTP/1.1"));
  EXPECT_FALSE(Head().add_line("HTTP/1.1 abc"));
  EXPECT_FALSE(Head().add_line("HTTP/1.1 99999"));
  Head head;
  const std::string line(1000, 'x');
  std::size_t lines = 0;
  while (lines < 10'000 && head.add_line(line)) ++lines;
  EXPECT_EQ(lines, kHeadBytes / line.size());
}

TEST(Head, says_what_else_the_body_is) {
  EXPECT_EQ(head_of({"HTTP/1.1 200 OK", "Content-Encoding: gzip"}).encoding, "gzip");
  EXPECT_EQ(head_of({"HTTP/1.1 200 OK", "Content-Encoding: Identity"}).encoding, "");
  EXPECT_EQ(head_of({"HTTP/1.1 200 OK", "Content-Encoding: aws-chunked"}).encoding, "");
  EXPECT_EQ(head_of({"HTTP/1.1 200 OK", "Content-Encoding: AWS-Chunked, identity,"}).encoding, "");
  EXPECT_EQ(head_of({"HTTP/1.1 200 OK", "Content-Encoding: aws-chunked,gzip"}).encoding, "aws-chunked,gzip");
  EXPECT_TRUE(head_of({"HTTP/1.1 206 X", "Content-Type: Multipart/byteranges; boundary=x"}).is_multipart);
}

TEST(Version, of_a_date_is_settled_when_the_answer_is_a_minute_later) {
  const auto is_settled = [](std::initializer_list<std::string_view> lines) {
    return version_in(head_of(lines), 4).is_settled;
  };
  constexpr std::string_view kWritten = "Last-Modified: Mon, 23 Nov 2026 10:00:00 GMT";
  EXPECT_FALSE(is_settled({"HTTP/1.1 200 X", kWritten, "Date: Mon, 23 Nov 2026 10:00:00 GMT"}));
  EXPECT_FALSE(is_settled({"HTTP/1.1 200 X", kWritten, "Date: Mon, 23 Nov 2026 10:00:59 GMT"}));
  EXPECT_FALSE(is_settled({"HTTP/1.1 200 X", kWritten, "Date: Mon, 23 Nov 2026 09:00:00 GMT"}));
  EXPECT_TRUE(is_settled({"HTTP/1.1 200 X", kWritten, "Date: Mon, 23 Nov 2026 10:01:00 GMT"}));
  EXPECT_TRUE(is_settled({"HTTP/1.1 200 X", kWritten, "ETag: \"1\"", "Date: Mon, 23 Nov 2026 10:00:00 GMT"}));
}

}  // namespace
}  // namespace damacy::http
