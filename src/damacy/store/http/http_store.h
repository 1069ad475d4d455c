// Objects behind HTTP(S), read by range requests. The first answer fixes the version of an object; every later one must
// carry it. A transfer runs on the thread that reads.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "damacy/store/store.h"

namespace damacy::http {

struct HttpSettings {
  int attempts = 6;
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::seconds stall_timeout{20};              // below 1 KiB/s, or without an answer
  std::chrono::milliseconds deadline{60'000};          // of a read with all attempts, and a second more per MB
  std::chrono::milliseconds first_pause{100};          // before the second attempt; then doubled
  std::chrono::milliseconds revalidate_after{60'000};  // what is known of an object is believed for so long
  std::size_t head_bytes = 64 << 10;                   // asked for when an object is opened
};

// Throws Error(inval, "uri") unless `uri` is http(s)://HOST[:PORT][/PATH], percent-encoded, without user info, query
// and fragment.
void check_http_uri(std::string_view uri);

// Keys are percent-encoded and appended to the path of `uri`. An object is absent if the server answers 404. Plain HTTP
// has no listings: list() is always empty. Reads throw Error(io) with the reasons denied, changed, range, encoded,
// no-validator, redirect, throttled, http, deadline, dns, connect, tls, io; without a libcurl Error(inval, "no-http").
[[nodiscard]] std::shared_ptr<Store> make_http_store(std::string_view uri, const HttpSettings& settings = {});

}  // namespace damacy::http
