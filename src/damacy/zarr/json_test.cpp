#include "damacy/zarr/json.h"

#include <gtest/gtest.h>

#include <string>

#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "support/documents.h"

namespace damacy::json {
namespace {

using for_tests::accepted;
using for_tests::over_limit;
using for_tests::Refusal;
using for_tests::refusal_of;
using for_tests::wrong;

Refusal parsed(std::string_view text, Form form = Form::plain) {
  return refusal_of([&] { Document::parse(text, form); });
}

std::string number_at(std::string_view text) {
  const auto document = Document::parse(text, Form::plain);
  return std::string((*document.root().begin()).text());
}

TEST(Json, keeps_numbers_as_they_are_written) {
  for (const std::string number : {"0", "-0", "1e400", "-1.50E+07", "123456789012345678901234567890", "0.1e-5"})
    EXPECT_EQ(number_at("[ " + number + " ]"), number);
}

TEST(Json, keeps_of_a_long_list_the_beginning_and_the_length) {
  std::string items = "0";
  for (int i = 1; i < 500; ++i) items += formatted(",{}", i);
  const auto document = Document::parse(formatted(R"({{"a":[{}],"b":1}})", items), Form::plain);
  const Value list = document.root().at("a");
  EXPECT_EQ(list.size(), 500u);
  std::int64_t kept = 0;
  for (const Value item : list) EXPECT_EQ(item.integer(0), kept++);
  EXPECT_GE(kept, 2 * static_cast<std::int64_t>(Limits::rank));
  EXPECT_LT(kept, 500);
  EXPECT_EQ(document.root().at("b").integer(0), 1);
}

TEST(Json, refuses_what_is_no_number_in_rfc_8259) {
  for (const std::string number :
       {"01",  "+1",  "1.", ".5",  "1e",   "1e+", "-",   "--1", "0x10", "1_0",  "1 2",
        "1-2", "12-", "00", "-01", "1.e3", "1a",  "Inf", "nan", "-NaN", "NaNa", "InfinityInfinity",
        "N",   "-I"})
    EXPECT_EQ(parsed("[" + number + "]").reason, "json") << number;
}

TEST(Json, keeps_bare_words_as_numbers_everywhere) {
  EXPECT_EQ(parsed(R"({"a":[NaN,{"b":-Infinity}],"c":Infinity})", Form::attributes), accepted());
  EXPECT_EQ(parsed(R"({"attributes":{"a":[NaN,-Infinity]}})", Form::v3_array), accepted());
  EXPECT_EQ(parsed(R"({"attributes":{"ome":{"multiscales":[{"x":NaN,"datasets":[{"y":NaN}]}]}}})", Form::v3_group),
            accepted());
  EXPECT_EQ(parsed(R"({"consolidated_metadata":{"metadata":{"a":{"attributes":{"q":[NaN]}}}}})", Form::v3_group),
            accepted());
  EXPECT_EQ(parsed(R"({"metadata":{"a/.zattrs":{"q":NaN},".zattrs":NaN}})", Form::consolidated), accepted());

  EXPECT_EQ(parsed(R"({"fill_value":NaN})", Form::v3_array), accepted());
  EXPECT_EQ(parsed(R"({"consolidated_metadata":{"metadata":{"a":{"fill_value":NaN}}}})", Form::v3_group), accepted());
  EXPECT_EQ(parsed(R"({"metadata":{"a/.zarray":{"fill_value":Infinity}}})", Form::consolidated), accepted());
  for (const std::string word : {"NaN", "Infinity", "-Infinity"}) EXPECT_EQ(number_at("[" + word + "]"), word);
}

TEST(Json, takes_no_bare_word_for_a_finite_number) {
  const auto document = Document::parse(R"([NaN,-Infinity,1e400,"1"])", Form::plain);
  std::string finite;
  for (const Value value : document.root()) finite += value.is_finite_number() ? 'f' : '-';
  EXPECT_EQ(finite, "--f-");
  EXPECT_EQ(refusal_of([&] { static_cast<void>((*document.root().begin()).integer(0)); }), wrong("metadata", "/0"));
}

TEST(Json, errors_quote_what_stands_in_the_document) {
  const auto said = [](auto call) {
    try {
      call();
    } catch (const Error& e) {
      return e.message();
    }
    return std::string();
  };
  EXPECT_EQ(said([] { Document::parse(R"({"fill_value": nan, "order": "C"})", Form::plain); }),
            "not JSON: Invalid value. (byte 15: nan, \"order\": \"C\"})");
  EXPECT_EQ(
      said([] { Document::parse("<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>", Form::plain); }),
      "not JSON: Invalid value. (byte 0: <!DOCTYPE html>\\x0a<html><head><tit)");
  EXPECT_EQ(said([] { Document::parse("[1", Form::plain); }),
            "not JSON: Missing a comma or ']' after an array element. (byte 2: the end)");
  EXPECT_EQ(said([] { Document::parse(R"([nan, "https://a/b?token=c"])", Form::plain); }),
            "not JSON: Invalid value. (byte 1: nan, \"https)");
  EXPECT_EQ(said([] { Document::parse(R"(["?token=c\z"])", Form::plain); }),
            "not JSON: Invalid escape character in string. (byte 10)");
  const auto document = Document::parse(R"(["two",true,12,null,[],"three\nlines"])", Form::plain);
  std::string shown_all;
  for (const Value value : document.root()) shown_all += shown(value) + ' ';
  EXPECT_EQ(shown_all, "\"two\" true 12 null a list \"three\\x0alines\" ");
  EXPECT_EQ(said([&] { static_cast<void>((*document.root().begin()).integer(0)); }),
            "expected a number, found \"two\"");
}

TEST(Json, digits_and_words_inside_strings_stay_strings) {
  const auto document = Document::parse(R"({"-1NaN\"2":"3 \\","x":"Infinity"})", Form::plain);
  EXPECT_EQ((*document.root().begin()).name(), "-1NaN\"2");
  EXPECT_EQ(document.root().at("-1NaN\"2").text(), "3 \\");
  EXPECT_EQ(document.root().at("x").text(), "Infinity");
}

TEST(Json, refuses_all_but_one_value_in_utf8) {
  using namespace std::string_literals;
  const std::string texts[] = {"",
                               " ",
                               "{",
                               "[1,]",
                               "{\"a\":1,}",
                               "{'a':1}",
                               "[1] 2",
                               "[] []",
                               "[]x",
                               "tru",
                               "nul",
                               "[\"\n\"]",
                               "\"\\u12\"",
                               "\"\\x\"",
                               "{\"a\"}",
                               "{\"a\" 1}",
                               "{1:2}",
                               "[1,,2]",
                               "[\x01]",
                               "// c\n[]",
                               "[\"\x80\"]",
                               "[\"\xc0\xaf\"]",
                               "[\"\xed\xa0\x80\"]",
                               "[\"\xf5\x80\x80\x80\"]",
                               "[\"\\ud800\"]",
                               "[\"\\udc00\"]",
                               "[\"\\ud800\\u0041\"]",
                               "\xef\xbb\xbf[]",
                               "[]\0"s,
                               "[\0]"s,
                               "{\"a\\u0000b\":1}",
                               "\xff\xfe[\0]\0"s,
                               "]",
                               "[}",
                               "{]",
                               "\"abc",
                               "[1",
                               "{\"a\":",
                               ",",
                               ":",
                               "1,"};
  for (const auto& text : texts) EXPECT_EQ(parsed(text).reason, "json") << text;
}

TEST(Json, takes_white_space_escapes_and_all_of_unicode) {
  const auto document =
      Document::parse("\t\r\n [ \"\\u00e9\\n\\/\\ud83d\\ude00\" , \"\xf0\x9f\x98\x80\\u0000\" ] \n", Form::plain);
  EXPECT_EQ((*document.root().begin()).text(), "\xc3\xa9\n/\xf0\x9f\x98\x80");
  EXPECT_EQ((*++document.root().begin()).text(), std::string_view("\xf0\x9f\x98\x80\0", 5));
}

TEST(Json, points_at_values_with_escaped_names) {
  const auto document = Document::parse(R"({"a/b":{"c~d":[0,[1,"x"]]},"":5})", Form::plain);
  const Value list = document.root().at("a/b").at("c~d");
  EXPECT_EQ((*++list.begin()).pointer(), "/a~1b/c~0d/1");
  EXPECT_EQ(document.root().at("").pointer(), "/");
  EXPECT_EQ(document.root().pointer(), "");
}

TEST(Json, refuses_a_name_that_occurs_twice_where_it_is_looked_into) {
  const auto document = Document::parse(R"({"a":{"x":1,"b":2,"\u0078":3},"c":{}})", Form::plain);
  EXPECT_EQ(refusal_of([&] { document.root().at("c"); }), accepted());
  EXPECT_EQ(refusal_of([&] { document.root().at("a").find("b"); }), wrong("duplicate-key", "/a/x"));
}

TEST(Json, finds_a_name_that_occurs_twice_among_many) {
  for (const std::size_t count : {2, 15, 16, 17, 18, 100}) {
    for (const std::size_t twin : {std::size_t{0}, count / 2, count - 1}) {
      std::string members = formatted("\"{}\":[1]", twin);
      for (std::size_t i = 0; i < count; ++i) members.insert(0, formatted("\"{}\":{{}},", i));
      const auto document = Document::parse(formatted("{{{}}}", members), Form::plain);
      EXPECT_EQ(refusal_of([&] { document.root().find("x"); }), wrong("duplicate-key", formatted("/{}", twin)));
    }
  }
}

TEST(Json, keeps_nothing_more_of_an_object_with_a_name_that_occurs_twice) {
  const auto document = Document::parse(R"({"a":1,"a":2,"a":[3],"b":{"c":4}})", Form::plain);
  EXPECT_EQ(document.root().size(), 2u);
  EXPECT_EQ(refusal_of([&] { document.root().at("b"); }), wrong("duplicate-key", "/a"));
  const std::string digits(Limits::json_number_chars + 1, '1');
  EXPECT_EQ(parsed(formatted(R"({{"a":1,"a":2,"b":{}}})", digits)), over_limit("/b"));
  EXPECT_EQ(parsed(formatted(R"({{"a":1,"a":2,"attributes":{{"c":{}}}}})", digits), Form::v3_array), accepted());
}

TEST(Json, an_integer_is_written_as_one) {
  const auto integer = [](const std::string& number, std::int64_t min) {
    const auto document = Document::parse("[" + number + "]", Form::plain);
    return (*document.root().begin()).integer(min);
  };
  EXPECT_EQ(integer("0", 0), 0);
  EXPECT_EQ(integer("9223372036854775806", 0), 9223372036854775806);
  EXPECT_EQ(integer("9223372036854775807", 0), 9223372036854775807);
  EXPECT_EQ(integer("-9223372036854775808", INT64_MIN), INT64_MIN);
  EXPECT_EQ(integer("-1", -1), -1);
  EXPECT_EQ(refusal_of([&] { integer("9223372036854775808", 0); }), over_limit("/0"));
  EXPECT_EQ(refusal_of([&] { integer("-9223372036854775809", 0); }), wrong("metadata", "/0"));
  for (const std::string number : {"-1", "-0", "64.0", "1e3", "1E3", "0.0", "\"64\"", "true", "null", "[]", "{}"})
    EXPECT_EQ(refusal_of([&] { integer(number, 0); }), wrong("metadata", "/0")) << number;
}

TEST(Json, says_what_is_missing_or_mistyped) {
  const auto document = Document::parse(R"({"a":[1]})", Form::plain);
  EXPECT_EQ(refusal_of([&] { document.root().at("b/c"); }), wrong("metadata", "/b~1c"));
  EXPECT_EQ(refusal_of([&] { document.root().at("a").at("x"); }), wrong("metadata", "/a"));
  EXPECT_FALSE(document.root().find("b").has_value());
}

std::string nested(std::size_t levels) {
  return std::string(levels, '[') + std::string(levels, ']');
}

TEST(JsonLimits, nesting) {
  EXPECT_EQ(parsed(nested(Limits::json_nesting - 1)), accepted());
  EXPECT_EQ(parsed(nested(Limits::json_nesting)), accepted());
  EXPECT_EQ(parsed(nested(Limits::json_nesting + 1)).reason, "limit");
  const auto in_attributes = [](std::size_t levels) { return R"({"a":)" + nested(levels - 1) + "}"; };
  EXPECT_EQ(parsed(in_attributes(Limits::json_nesting), Form::attributes), accepted());
  EXPECT_EQ(parsed(in_attributes(Limits::json_nesting + 1), Form::attributes).reason, "limit");
}

std::string with_members(std::size_t count) {
  std::string text = "{";
  for (std::size_t i = 0; i < count; ++i) text += (i ? ",\"" : "\"") + std::to_string(i) + "\":{}";
  return text + "}";
}

TEST(JsonLimits, members_of_an_object) {
  EXPECT_EQ(parsed(with_members(Limits::json_members - 1)), accepted());
  EXPECT_EQ(parsed(with_members(Limits::json_members)), accepted());
  EXPECT_EQ(parsed(with_members(Limits::json_members + 1)), over_limit("/4096"));
  const auto many = with_members(2 * Limits::json_members);
  EXPECT_EQ(parsed(many, Form::attributes), accepted());
  EXPECT_EQ(parsed(R"({"attributes":{"a":)" + many + "}}", Form::v3_array), accepted());
  EXPECT_EQ(parsed(R"({"consolidated_metadata":{"metadata":)" + many + "}}", Form::v3_group), accepted());
  EXPECT_EQ(parsed(R"({"metadata":)" + many + "}", Form::consolidated), accepted());
  EXPECT_EQ(parsed(R"({"consolidated_metadata":{"metadata":{"a":)" + many + "}}}", Form::v3_group).reason, "limit");
  EXPECT_EQ(parsed(R"({"x":)" + many + "}", Form::v3_group), over_limit("/x/4096"));
}

TEST(JsonLimits, bytes_of_a_string) {
  const auto string = [](std::size_t bytes) { return '"' + std::string(bytes, 's') + '"'; };
  const std::size_t limit = Limits::json_string_bytes;
  EXPECT_EQ(parsed("[" + string(limit - 1) + "]"), accepted());
  EXPECT_EQ(parsed("[" + string(limit) + "]"), accepted());
  EXPECT_EQ(parsed("[0," + string(limit + 1) + "]"), over_limit("/1"));
  EXPECT_EQ(parsed("{" + string(limit + 1) + ":0}").reason, "limit");
  EXPECT_EQ(parsed("{" + string(limit + 1) + ":" + string(limit + 1) + "}", Form::attributes), accepted());
  EXPECT_EQ(parsed(R"({"a":)" + string(limit + 1) + "}", Form::v3_group), over_limit("/a"));
}

TEST(JsonLimits, characters_of_a_number) {
  const auto number = [](std::size_t characters) { return "1." + std::string(characters - 2, '0'); };
  const std::size_t limit = Limits::json_number_chars;
  EXPECT_EQ(parsed("[" + number(limit - 1) + "]"), accepted());
  EXPECT_EQ(parsed("[" + number(limit) + "]"), accepted());
  EXPECT_EQ(parsed("[" + number(limit + 1) + "]"), over_limit("/0"));
  EXPECT_EQ(parsed(R"({"a":)" + number(limit + 1) + "}", Form::attributes), accepted());
  EXPECT_EQ(parsed(R"({"a":)" + number(1000) + "}", Form::v3_group), over_limit("/a"));
}

TEST(Json, keeps_of_a_groups_document_only_what_finding_arrays_needs) {
  const auto document = Document::parse(
      R"({"zarr_format":3,"x":{"must_understand":false,"y":[1,2]},"attributes":{"z":1,"multiscales":[{"name":"m",
          "datasets":[{"path":"0","scale":[1]}]},{},{}]}})",
      Form::v3_group);
  EXPECT_EQ(document.root().at("x").size(), 1u);
  EXPECT_EQ(document.root().at("attributes").size(), 1u);
  const Value multiscales = document.root().at("attributes").at("multiscales");
  EXPECT_EQ(multiscales.size(), 3u);
  const Value datasets = (*multiscales.begin()).at("datasets");
  EXPECT_EQ((*multiscales.begin()).size(), 1u);
  EXPECT_EQ((*datasets.begin()).at("path").text(), "0");
  EXPECT_EQ((*datasets.begin()).size(), 1u);
}

}  // namespace
}  // namespace damacy::json
