// Objects behind HTTP(S), read by range requests. The first answer fixes the version of an object; every later one must
// carry it. Network threads carry the transfers; the thread that reads waits, and repeats what fails.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "damacy/core/clock.h"
#include "damacy/store/http/repeats.h"
#include "damacy/store/http/service.h"
#include "damacy/store/store.h"

namespace damacy::http {

struct HttpSettings {
  int attempts = 6;
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::seconds stall_timeout{20};              // below 1 KiB/s, or without an answer
  std::chrono::milliseconds deadline{60'000};          // of a read with all attempts, and a second more per MB
  std::chrono::milliseconds revalidate_after{60'000};  // what is known of an object is believed for so long
  std::size_t head_bytes = 64 << 10;                   // asked for when an object is opened
  std::string ca_file{};                               // empty: as find_certificates() finds one
  bool is_aws = false;                                 // AWS_CA_BUNDLE counts
  std::optional<std::string> proxy{};                  // empty: by the environment; "": none
  std::vector<std::string> headers{};                  // lines that every request carries
  std::vector<int> absent_status{404};                 // which answers mean that an object is absent
  bool immutable = false;                              // objects never change: caches on disk may believe their tags
  std::chrono::milliseconds first_byte_timeout{20'000};
  std::size_t max_requests = 256;  // under way to one origin
  bool allow_unversioned = false;  // take answers with neither ETag nor Last-Modified
  std::shared_ptr<const Clock> clock = std::make_shared<SteadyClock>();  // of deadlines and pauses
  std::shared_ptr<Chance> chance = make_chance();                        // of pauses
};

// Throws Error(inval, "uri") unless `uri` is http(s)://HOST[:PORT][/PATH], percent-encoded, without user info, query
// and fragment.
void check_http_uri(std::string_view uri);

// The objects of a service; `name` is what errors call the store. Requests are made as by make_http_store(), without
// `headers` and `absent_status`.
[[nodiscard]] std::shared_ptr<Store> make_service_store(std::string name, std::shared_ptr<Service> service,
                                                        const HttpSettings& settings = {});

// Keys are percent-encoded and appended to the path of `uri`. An object is absent if the server answers with one of
// `absent_status`. Plain HTTP has no listings: list() is always empty. Reads throw Error(io) with the reasons denied,
// changed, range, encoded, no-validator, redirect, throttled, http, deadline, dns, connect, tls, io; without a libcurl
// Error(inval, "no-http").
[[nodiscard]] std::shared_ptr<Store> make_http_store(std::string_view uri, const HttpSettings& settings = {});

}  // namespace damacy::http
