#include "damacy/store/store_fields.h"

#include <set>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace damacy {
namespace {

// Another number of fields does not compile: a new one needs a line in the table, and a name here.
TEST(StoreFields, each_field_has_one_line_in_the_table) {
  const StoreOptions options;
  const auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22,
               f23, f24, f25, f26, f27] = options;
  const std::set<const void*> members{&f0,  &f1,  &f2,  &f3,  &f4,  &f5,  &f6,  &f7,  &f8,  &f9,
                                      &f10, &f11, &f12, &f13, &f14, &f15, &f16, &f17, &f18, &f19,
                                      &f20, &f21, &f22, &f23, &f24, &f25, &f26, &f27};
  std::set<const void*> in_table;
  std::set<std::string_view> names;
  for_store_fields([&](const auto& field) {
    in_table.insert(&(options.*field.member));
    names.insert(field.name);
  });
  EXPECT_EQ(in_table, members);
  EXPECT_EQ(names.size(), members.size());
}

TEST(StoreFields, the_masked_text_of_defaults_is_empty) {
  EXPECT_EQ(masked_text({}), "StoreOptions()");
}

TEST(StoreFields, the_masked_text_has_all_fields_that_are_not_their_defaults_and_no_secret) {
  StoreOptions options;
  options.endpoint = "https://user:hidden@host/path";
  options.region = "eu";
  options.addressing = "path";
  options.anonymous = false;
  options.credentials = [] { return Credentials(); };
  options.profile = "p\nq";
  options.access_key_id = "AKIAIOSFODNN7EXAMPLE";
  options.secret_access_key = options.session_token = options.bearer_token = "hidden";
  options.request_payer = true;
  options.headers = {{"X-One", "hidden"}, {"X-Two", "hidden"}};
  options.absent_status = {403, 404};
  options.proxy = "http://user:hidden@proxy";
  options.ca_file = "/ca.pem";
  options.connect_timeout_s = 1.5;
  options.first_byte_timeout_s = 2;
  options.stall_timeout_s = 3;
  options.deadline_s = 4;
  options.attempts = 5;
  options.max_requests = 6;
  options.redirects = 1;
  options.request_bytes = 65536;
  options.gap_bytes = 0;
  options.hedge = "on";
  options.revalidate_s = 0;
  options.immutable = true;
  options.allow_unversioned = true;
  const std::string shown = masked_text(options);
  EXPECT_EQ(shown.find("hidden"), shown.npos) << shown;
  EXPECT_EQ(shown.find('\n'), shown.npos) << shown;
  for_store_fields([&](const auto& field) {
    const std::string start = std::string(field.name) + "=";
    EXPECT_TRUE(shown.find("(" + start) != shown.npos || shown.find(", " + start) != shown.npos) << start << shown;
  });
  for (const char* part :
       {"region='eu'", "anonymous=False", "access_key_id='***MPLE'", "secret_access_key='***'", "request_payer=True",
        "headers=(('X-One', '***'), ('X-Two', '***'))", "absent_status=(403, 404)", "connect_timeout_s=1.5",
        "attempts=5", "gap_bytes=0", "hedge='on'", "revalidate_s=0", "allow_unversioned=True"})
    EXPECT_NE(shown.find(part), shown.npos) << part << " in " << shown;
}

TEST(StoreFields, the_masked_text_shows_nothing_of_a_short_id_of_a_key) {
  StoreOptions options;
  options.access_key_id = "short";
  EXPECT_EQ(masked_text(options), "StoreOptions(access_key_id='***')");
}

}  // namespace
}  // namespace damacy
