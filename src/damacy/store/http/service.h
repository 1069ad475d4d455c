// What a service behind HTTP adds to the plain protocol: where its objects are, the headers that its requests carry,
// and what its refusals mean. The seam between the HTTP store, which transfers, repeats and keeps, and the stores of
// clouds.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "damacy/store/http/answer.h"
#include "damacy/store/http/verdict.h"
#include "damacy/store/store.h"

namespace damacy::http {

struct Address {
  std::string url;                   // percent-encoded; never part of a text
  std::vector<std::string> headers;  // lines without their ends; secrets, too
};

struct ListingPage {
  std::vector<Entry> entries;
  std::string next;  // names the page that follows; empty: this is the last one
};

// Called from many threads, those that read. Errors need neither key nor store.
class Service {
 public:
  using Time = std::chrono::steady_clock::time_point;

  virtual ~Service() = default;

  // What tells its objects from those of all services, in any process, together with the name of the store.
  virtual std::string identity() const { return {}; }

  // Before each attempt. May block until `end`, and throw Error.
  virtual Address address(std::string_view key, Time end) = 0;
  // address() does not wait for code of the user, which may never answer. Requests that nobody waits for yet are left
  // out while it would.
  virtual bool is_ready() { return true; }

  // What an answer means that is not the object. `usual` is what its status alone says; `body` its first 64 KiB;
  // `known`: the object was there before. Empty: the object is absent, which a known one never is.
  virtual std::optional<Failure> refused(std::string_view key, const Head& head, std::string_view body, bool known,
                                         Failure usual) = 0;

  virtual bool has_listings() const noexcept { return false; }
  // Of the names directly below `prefix`; empty: the service has no listings. `next` as the former page has it.
  virtual std::optional<Address> listing(std::string_view prefix, std::string_view next, Time end) {
    static_cast<void>(prefix), static_cast<void>(next), static_cast<void>(end);
    return std::nullopt;
  }
  // Empty: the body is no listing.
  virtual std::optional<ListingPage> parse_listing(std::string_view prefix, std::string_view body) {
    static_cast<void>(prefix), static_cast<void>(body);
    return std::nullopt;
  }
};

}  // namespace damacy::http
