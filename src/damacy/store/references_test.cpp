#include "damacy/store/references.h"

#include <gtest/gtest.h>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "support/error_of.h"

namespace damacy {
namespace {

References parsed(std::string_view refs) {
  return References::parse(formatted(R"({{"version": 1, "refs": {}}})", refs));
}

Error error_in(std::string_view document) {
  return error_of([&] { static_cast<void>(References::parse(document)); });
}
Error error_of_refs(std::string_view refs) {
  return error_of([&] { parsed(refs); });
}

std::string names(const std::vector<Entry>& entries) {
  std::string all;
  for (const Entry& entry : entries) all += formatted("{}{}", entry.name, entry.is_directory ? "/ " : " ");
  return all;
}

TEST(References, are_data_objects_and_ranges) {
  const auto found = parsed(R"({"a": "text", "b/0": ["s3://x/y", 7, 12], "b/1": ["s3://x/z"], "c": "base64:AAH/"})");
  EXPECT_EQ(found.size(), 4u);
  EXPECT_EQ(found.find("a")->data, "text");
  EXPECT_EQ(found.find("c")->data, std::string_view("\0\1\xff", 3));
  const auto range = found.find("b/0");
  EXPECT_FALSE(range->data);
  EXPECT_EQ(found.urls()[range->url], "s3://x/y");
  EXPECT_EQ(range->range->offset, 7u);
  EXPECT_EQ(range->range->bytes, 12u);
  EXPECT_EQ(found.urls()[found.find("b/1")->url], "s3://x/z");
  EXPECT_FALSE(found.find("b/1")->range);
  EXPECT_FALSE(found.find("b"));
  EXPECT_FALSE(found.find("b/2"));
}

TEST(References, keep_one_url_once) {
  const auto found = parsed(R"({"a": ["u", 0, 1], "b": ["v"], "c": ["u", 1, 1]})");
  EXPECT_EQ(found.urls().size(), 2u);
  EXPECT_EQ(found.find("a")->url, found.find("c")->url);
}

TEST(References, an_object_stands_for_its_text) {
  const auto found = parsed(R"({".zattrs": {"a": [1, {"b": "}"}], "n": NaN} , ".zgroup": {}})");
  EXPECT_EQ(found.find(".zattrs")->data, R"({"a": [1, {"b": "}"}], "n": NaN})");
  EXPECT_EQ(found.find(".zgroup")->data, "{}");
}

TEST(References, list_what_is_directly_below_a_path) {
  const auto found = parsed(R"({"b/x/deep": "", "b/w": "", "a": "", "c!": "", "c/d": "", "c": "", "b0": ""})");
  EXPECT_EQ(names(found.list("")), "a b/ b0 c/ c! ");
  EXPECT_EQ(names(found.list("b")), "w x/ ");
  EXPECT_EQ(names(found.list("a")), "");
  EXPECT_TRUE(found.has_below("b/x"));
  EXPECT_FALSE(found.has_below("b/w"));
}

TEST(References, other_members_and_empty_templates_are_ignored) {
  const auto found = References::parse(
      R"({"templates": {}, "gen": [], "x": {"refs": {"a": 1}}, "refs": {"a": "1"}, "version": 1, "templates": null})");
  EXPECT_EQ(found.size(), 1u);
  EXPECT_EQ(found.find("a")->data, "1");
}

TEST(References, templates_and_gen_are_refused_by_name) {
  for (const std::string_view member : {R"("templates": {"u": "s3://x"})", R"("gen": [{"key": "a"}])", R"("gen": "x")",
                                        R"("templates": [[]])", R"("templates": 1)"}) {
    const Error error = error_in(formatted(R"({{"version": 1, {}, "refs": {{}}}})", member));
    EXPECT_EQ(error.kind(), ErrorKind::unsupported_format) << member;
    EXPECT_EQ(error.where().reason, "references");
    const auto name = member.substr(1, member.find('"', 1) - 1);
    EXPECT_TRUE(error.message().starts_with(formatted("the document has {}", name))) << error.message();
    EXPECT_EQ(error.where().pointer, formatted("/{}", name));
  }
}

TEST(References, other_versions_are_refused) {
  for (const std::string_view document :
       {R"({"refs": {}})", R"({"version": 0, "refs": {}})", R"({"version": "1", "refs": {}})",
        R"({"version": [1], "refs": {}})", R"({"a": "x"})", R"({"version": 1})", R"([])", R"(1)",
        R"({"version": 1.0})"}) {
    const Error error = error_in(document);
    EXPECT_EQ(error.status(), Status::decode) << document;
    EXPECT_EQ(error.where().reason, "metadata") << document;
  }
  EXPECT_EQ(error_in(R"({"version": 0, "refs": {}})").message(),
            "references are read from documents of version 1, found 0");
}

TEST(References, wrong_values_are_refused_with_their_place) {
  for (const std::string_view value : {"1",
                                       "null",
                                       "true",
                                       "[]",
                                       R"(["u", 1])",
                                       R"(["u", 1, 2, 3])",
                                       R"([1, 2, 3])",
                                       R"(["u", "1", 2])",
                                       R"(["u", -1, 2])",
                                       R"(["u", 1.5, 2])",
                                       R"(["u", 1, -0])",
                                       R"(["u", 1, 9223372036854775808])",
                                       R"(["u", 9223372036854775807, 1])",
                                       R"(["u", [1], 2])",
                                       R"(["u", 1, null])",
                                       R"("base64:A")",
                                       R"("base64:AA=A")",
                                       R"("base64:A===")",
                                       R"("base64:AAA*")",
                                       R"([["u"]])",
                                       R"([NaN])"}) {
    const Error error = error_of_refs(formatted(R"({{"t/0.0": {}}})", value));
    EXPECT_EQ(error.status(), Status::decode) << value;
    EXPECT_EQ(error.where().reason, "metadata") << value;
    EXPECT_EQ(error.where().pointer, "/refs/t~10.0") << value;
  }
  EXPECT_EQ(error_of_refs("[]").where().pointer, "/refs");
  const std::string expected = "expected a string, [url] or [url, offset, length], found ";
  EXPECT_EQ(error_of_refs(R"({"a": 12})").message(), expected + "12");
  EXPECT_EQ(error_of_refs(R"({"a": ["u", 1.5, 2]})").message(), expected + "1.5");
  EXPECT_EQ(error_of_refs(R"({"a": ["u", 1]})").message(), expected + "a list of 2");
  EXPECT_EQ(error_of_refs(R"({"a": ["u", "s3cret", 2]})").message(), expected + "a string");
  EXPECT_EQ(error_of_refs("\"x\"").where().pointer, "/refs");
}

TEST(References, a_key_that_occurs_twice_is_refused) {
  const Error error = error_of_refs(R"({"a": "1", "b": "2", "a": "3"})");
  EXPECT_EQ(error.where().reason, "duplicate-key");
  EXPECT_EQ(error.where().pointer, "/refs/a");
  EXPECT_EQ(error_in(R"({"version": 1, "refs": {}, "refs": {}})").where().reason, "duplicate-key");
  EXPECT_EQ(error_in(R"({"version": 1, "version": 1})").where().reason, "duplicate-key");
}

TEST(References, what_is_no_key_or_no_url_is_refused) {
  EXPECT_EQ(error_of_refs(R"({"../a": "x"})").where().reason, "limit");
  EXPECT_EQ(error_of_refs(R"({"a//b": "x"})").where().reason, "limit");
  EXPECT_EQ(error_of_refs(R"({"": "x"})").where().reason, "limit");
  EXPECT_EQ(error_of_refs(R"({"a": ["", 0, 1]})").where().reason, "uri");
  EXPECT_EQ(error_of_refs(R"({"a": ["x\u0000y"]})").where().reason, "uri");
  EXPECT_EQ(error_of_refs(formatted(R"({{"a": ["{}"]}})", std::string(Limits::uri_bytes + 1, 'u'))).where().reason,
            "uri");
  EXPECT_EQ(error_of_refs(R"({"a\udc00": "x"})").where().reason, "json");
  EXPECT_EQ(error_of_refs(R"({"a": "\udc00"})").where().reason, "json");
}

TEST(References, what_is_not_json_is_refused) {
  for (const std::string_view document : {"", "{", "{]", "PAR1", "{\"version\": 1} x", "\xef\xbb\xbf{}"})
    EXPECT_EQ(error_in(document).where().reason, "json") << document;
  const Error deep = error_of_refs(formatted(R"({{"a": {{"b":{}{}}}}})", std::string(64, '['), std::string(64, ']')));
  EXPECT_EQ(deep.where().reason, "limit");
}

TEST(References, their_number_is_limited) {
  std::string refs = "{";
  for (std::uint64_t i = 0; i < Limits::references; ++i) refs += formatted(R"({}"{}":"")", i > 0 ? "," : "", i);
  EXPECT_EQ(parsed(refs + "}").size(), Limits::references);
  const Error error = error_of_refs(refs + R"(,"x":""})");
  EXPECT_EQ(error.status(), Status::inval);
  EXPECT_EQ(error.where().reason, "limit");
  EXPECT_EQ(error.message(), "more references than the limit of 4194304");
}

TEST(References, the_size_of_the_document_is_limited) {
  std::string document = R"({"version": 1, "refs": {}})";
  document.resize(Limits::group_document_bytes, ' ');
  EXPECT_EQ(References::parse(document).size(), 0u);
  EXPECT_EQ(error_in(document + ' ').where().reason, "limit");
}

}  // namespace
}  // namespace damacy
