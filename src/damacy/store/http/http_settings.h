// What requests of a store behind HTTP keep to: times, certificates, headers; and the settings that options of a store
// ask for. Makes no store.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "damacy/core/clock.h"
#include "damacy/store/http/repeats.h"
#include "damacy/store/network_counts.h"
#include "damacy/store/store_options.h"
#include "damacy/store/store_use.h"

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
  std::size_t max_requests = 256;                     // under way to one origin
  bool allow_unversioned = false;                     // take answers with neither ETag nor Last-Modified
  std::optional<std::vector<int>> repeated_status{};  // answers that are asked for again; empty: the usual
  bool hedge = false;                                 // requests without a first byte in time are sent twice
  int redirects = 0;                                  // that are followed, one after the other
  std::optional<std::uint64_t> gap_bytes{};           // reads that are as near to each other become one
  std::size_t request_bytes = 8 << 20;                // a read of more is divided into equal requests
  std::shared_ptr<NetworkCounts> counts{};            // of requests for objects and listings; null: none
  std::shared_ptr<const Clock> clock = std::make_shared<SteadyClock>();  // of deadlines and pauses
  std::shared_ptr<Chance> chance = make_chance();                        // of pauses
};

// With the headers, and the bearer token as one of them.
[[nodiscard]] HttpSettings settings_of(const StoreOptions& options, const StoreUse& use = {});
void apply(const StoreUse& use, HttpSettings& settings);

}  // namespace damacy::http
