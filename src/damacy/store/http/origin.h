// The requests of one store: where they go, attempts and pauses, and what answers mean. Knows the service and the pace
// of its origins (scheme, host and port); not objects and what is known of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "damacy/core/clock.h"
#include "damacy/core/error.h"
#include "damacy/store/http/http_settings.h"
#include "damacy/store/http/repeats.h"
#include "damacy/store/http/service.h"
#include "damacy/store/http/transfer.h"
#include "damacy/store/http/verdict.h"
#include "damacy/store/store.h"

namespace damacy::http {

using SteadyTime = std::chrono::steady_clock::time_point;

// One attempt of a read: what the read says, and what the attempt finds.
struct Attempt {
  SteadyTime end;                            // of the read
  std::shared_ptr<Pace> pace = nullptr;      // of the origin; set with the request
  std::optional<int> wished = std::nullopt;  // by the server: seconds until it wants the next one
  int number = 1;
  int status = 0;  // of the answer
  std::string request_id{};
  std::optional<Failure> redirect{};  // why one was not followed

  void answered(const Head& head);
};

// What a read asks for: `memory.size()` bytes of an object from `first` on.
struct Wanted {
  std::string_view key;
  std::uint64_t first;
  std::span<std::byte> memory;
  std::string condition;  // a header line, or empty
  Transfer::Fits fits;
  std::shared_ptr<const void> known = nullptr;  // for `fits`
  bool from_end = false;                        // the last bytes, not those from `first` on
};

// The first attempt of a read, made without a thread that waits. What fails is repeated by the thread that ends the
// read, with the rules of all reads.
struct FirstAttempt {
  std::unique_ptr<Transfer> transfer;
  std::shared_ptr<Pace> pace;
  Clock::Time began{};
};

class Origin {
 public:
  Origin(std::string name, std::shared_ptr<Service> service, const HttpSettings& settings);

  const std::string& name() const { return name_; }
  Service& service() const { return *service_; }
  const HttpSettings& settings() const { return settings_; }
  ReadShape read_shape() const noexcept {
    return settings_.gap_bytes ? ReadShape{*settings_.gap_bytes, /*mostly_wanted=*/true} : ReadShape{};
  }

  // Calls `attempt` until it returns no Failure; throws Error when no further attempt is allowed. `bytes`: of the whole
  // read. `first`: its first attempt, if that is under way.
  using Try = std::function<std::optional<Failure>(Attempt&)>;
  void attempts(std::string_view key, std::uint64_t bytes, const Try& attempt,
                const std::optional<FirstAttempt>& first = {}) const;

  // The transfer after its end: that of `first`, which is then empty, else a new one, once the origin takes requests.
  [[nodiscard]] std::unique_ptr<Transfer> run(Wanted wanted, Attempt& attempt,
                                              std::optional<FirstAttempt>& first) const;
  // Begins a read. Empty: the origin wants no request now. `on_end`: as of Transfer::start(), of what is returned only.
  [[nodiscard]] std::optional<FirstAttempt> begin(Wanted wanted, std::function<void()> on_end) const;

  // Where a page of a listing is; empty: the service has no listings. Its whole body, once the origin takes requests.
  [[nodiscard]] std::optional<Address> listing(std::string_view prefix, std::string_view next,
                                               const Attempt& attempt) const;
  [[nodiscard]] std::unique_ptr<Transfer> run_whole(std::string_view prefix, Address address,
                                                    std::span<std::byte> memory, Attempt& attempt) const;

  // Why an answer cannot be used, or nothing: its body was accepted. `absent`, which a known object never is: set if
  // the object is not there.
  std::optional<Failure> failure_of(std::string_view key, const Transfer& transfer, bool known, bool& absent) const;

 private:
  Clock::Time allowance(std::uint64_t bytes) const;
  template <class Call>
  auto located(std::string_view key, Call call) const;
  Request request(const Wanted& wanted, Attempt& attempt) const;
  std::string shown(std::string_view key, const Attempt& attempt) const;
  void enter(Attempt& attempt, std::string_view key, const std::string& url) const;
  std::unique_ptr<Transfer> followed(std::unique_ptr<Transfer> transfer, const Wanted& wanted, Attempt& attempt) const;
  std::optional<Request> next_request(const Transfer& transfer, int followed, Attempt& attempt) const;
  void wait_for_turn(const Attempt& attempt, std::string_view key) const;
  void sleep_until(Clock::Time until) const;
  void log_first_use(const std::string& url) const;
  Error error(const Failure& failure, std::string_view key, int attempts, Clock::Time took) const;

  const std::string name_;
  const std::shared_ptr<Service> service_;
  const HttpSettings settings_;
  const TransferLimits limits_;
};

}  // namespace damacy::http
