#include "damacy/store/http/redirect.h"

#include <gtest/gtest.h>

namespace damacy::http {
namespace {

constexpr std::string_view kUrl = "https://host:8443/a/b/c.bin?token=x";

std::string resolved(std::string_view location) {
  return resolve_location(kUrl, location).value_or("none");
}

TEST(Redirect, locations_are_resolved_against_the_url) {
  EXPECT_EQ(resolved("https://other/x"), "https://other/x");
  EXPECT_EQ(resolved("HTTP://other/x?y#z"), "http://other/x?y");
  EXPECT_EQ(resolved("//other/x"), "https://other/x");
  EXPECT_EQ(resolved("/x"), "https://host:8443/x");
  EXPECT_EQ(resolved("x/y"), "https://host:8443/a/b/x/y");
  EXPECT_EQ(resolved("?q"), "https://host:8443/a/b/c.bin?q");
  EXPECT_EQ(resolve_location("http://host", "x"), "http://host/x");
}

TEST(Redirect, what_is_no_web_address_is_refused) {
  for (const char* const location :
       {"", "#x", "file:///etc/passwd", "ftp://host/x", "file:x", "javascript:1", "http://", "https://:80/x",
        "https://user@host/x", "//user:p@host/x", "/a b", "/a\r\nb", "/\xff", "/\\host"})
    EXPECT_EQ(resolved(location), "none") << location;
}

TEST(Redirect, is_shown_without_secrets) {
  EXPECT_EQ(shown_location("https://user:key@host/a?token=x#y"), "https://host/a");
  EXPECT_EQ(shown_location("//user:key@host/a?token=x"), "host/a");
  EXPECT_EQ(shown_location("/a/b?token=x"), "/a/b");
  EXPECT_EQ(shown_location("?token=x"), "");
  EXPECT_EQ(shown_location(""), "");
}

TEST(Urls, of_this_machine_are_loopback_names_and_addresses) {
  for (const char* const url : {"http://127.0.0.1", "http://127.1.2.3:80/a", "https://localhost/", "http://a.localhost",
                                "http://[::1]:80/a", "127.0.0.1:3128", "http://user:key@127.0.0.1:3128"})
    EXPECT_TRUE(is_of_this_machine(url)) << url;
  for (const char* const url : {"http://0.0.0.0", "http://127.example.org", "http://localhost.org", "http://[::2]",
                                "http://127.0.0.1@host/", "proxy:3128", "http://host/127.0.0.1"})
    EXPECT_FALSE(is_of_this_machine(url)) << url;
}

TEST(Urls, keep_secrets_that_are_encrypted_or_stay_on_this_machine) {
  EXPECT_TRUE(keeps_secrets("https://host/a", "proxy:3128"));
  EXPECT_TRUE(keeps_secrets("http://127.0.0.1/a"));
  EXPECT_TRUE(keeps_secrets("http://127.0.0.1/a", "http://localhost:3128"));
  EXPECT_FALSE(keeps_secrets("http://127.0.0.1/a", "http://proxy:3128"));
  EXPECT_FALSE(keeps_secrets("http://host/a"));
  EXPECT_FALSE(keeps_secrets("http://host/a", "http://localhost:3128"));
}

TEST(Redirect, addresses_have_a_reach) {
  for (const char* const address : {"10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.0.1", "127.0.0.1",
                                    "100.64.0.1", "0.0.0.0", "::1", "::", "fd00:ec2::254", "::ffff:10.0.0.1"})
    EXPECT_EQ(reach_of_text(address), Reach::local_network) << address;
  for (const char* const address : {"169.254.169.254", "fe80::1", "::ffff:169.254.169.254"})
    EXPECT_EQ(reach_of_text(address), Reach::link) << address;
  for (const char* const address : {"8.8.8.8", "172.32.0.1", "192.169.0.1", "2001:db8::1"})
    EXPECT_EQ(reach_of_text(address), Reach::internet) << address;
  EXPECT_EQ(reach_of_text("host"), Reach::unknown);
}

TEST(Redirect, leads_outwards_only) {
  EXPECT_TRUE(may_lead(Reach::internet, Reach::internet));
  EXPECT_FALSE(may_lead(Reach::internet, Reach::local_network));
  EXPECT_TRUE(may_lead(Reach::local_network, Reach::internet));
  EXPECT_FALSE(may_lead(Reach::local_network, Reach::link));
  EXPECT_FALSE(may_lead(Reach::unknown, Reach::link));
}

}  // namespace
}  // namespace damacy::http
