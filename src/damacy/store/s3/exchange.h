// A small request and its whole answer, for what is no object: tokens, credentials, the region of a bucket. One
// attempt.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "damacy/store/http/http_settings.h"

namespace damacy::s3 {

struct Reply {
  http::Head head;      // its status is 0 if there was no answer
  std::string body;     // at most 64 KiB
  std::string problem;  // why there was none
};

struct Exchange {
  std::string_view method;  // GET, HEAD, PUT or POST
  std::string url;
  std::vector<std::string> headers{};
  std::string body{};
};

// Throws Abandoned, and Error(inval, "no-http").
[[nodiscard]] Reply exchange(Exchange asked, const http::HttpSettings& settings, std::chrono::milliseconds timeout);

}  // namespace damacy::s3
