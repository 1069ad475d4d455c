#include "damacy/store/http/origin.h"

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include "damacy/core/formatted.h"
#include "damacy/core/log.h"
#include "damacy/store/http/certificates.h"
#include "damacy/store/http/curl.h"
#include "damacy/store/http/redirect.h"
#include "damacy/store/storage_watch.h"

namespace damacy::http {
namespace {

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

bool is_whole(const Head& head, const Request&, const void*) {
  return head.status == 200 && is_plain(head);
}

}  // namespace

void Attempt::answered(const Head& head) {
  wished = head.pause();
  status = head.status;
  request_id = one_line(head.request_id, 100);
}

Origin::Origin(std::string name, std::shared_ptr<Service> service, const HttpSettings& settings)
    : name_(std::move(name)),
      service_(std::move(service)),
      settings_(settings),
      limits_{
          settings.connect_timeout, settings.stall_timeout,      find_certificates(settings.ca_file, settings.is_aws),
          settings.proxy,           settings.first_byte_timeout, settings.max_requests,
          settings.counts} {}

void Origin::attempts(std::string_view key, std::uint64_t bytes, const Try& attempt,
                      const std::optional<FirstAttempt>& first) const {
  const Clock& clock = *settings_.clock;
  const Clock::Time begin = first ? first->began : clock.now();
  Repeats repeats(settings_.attempts, begin, begin + allowance(bytes), *settings_.chance);
  for (int number = 1;; ++number) {
    Attempt now{std::chrono::steady_clock::now() + (repeats.end() - clock.now())};
    now.number = number;
    std::optional<Failure> failure = attempt(now);
    if (now.redirect) failure = std::move(now.redirect);
    if (!failure) {
      if (now.pace) now.pace->succeeded();
      return;
    }
    const auto wait = repeats.after(*failure, now.wished, clock.now(), *now.pace);
    if (!wait)
      throw error(*failure, key, repeats.attempts(), clock.now() - begin)
          .with_http(now.status, now.request_id, repeats.attempts());
    if (settings_.counts) settings_.counts->repeated();
    now.pace->hedges()->repeated();
    sleep_until(clock.now() + *wait);
  }
}

template <class Call>
auto Origin::located(std::string_view key, Call call) const {
  try {
    return call();
  } catch (const Error& e) {
    throw Error(e).at_key(key).at_store(name_);
  }
}

std::unique_ptr<Transfer> Origin::run(Wanted wanted, Attempt& attempt, std::optional<FirstAttempt>& first) const {
  if (first) {
    FirstAttempt begun = *std::exchange(first, std::nullopt);
    attempt.pace = std::move(begun.pace);
    begun.transfer->wait();
    return followed(std::move(begun.transfer), wanted, attempt);
  }
  Request asked = request(wanted, attempt);
  wait_for_turn(attempt, wanted.key);
  auto transfer = std::make_unique<Transfer>(std::move(asked), wanted.fits, wanted.known);
  transfer->run(limits_, attempt.end);
  return followed(std::move(transfer), wanted, attempt);
}

// What a redirect, or several, led to.
std::unique_ptr<Transfer> Origin::followed(std::unique_ptr<Transfer> transfer, const Wanted& wanted,
                                           Attempt& attempt) const {
  for (int count = 0; is_redirect(transfer->head().status) && settings_.redirects > 0; ++count) {
    std::optional<Request> next = next_request(*transfer, count, attempt);
    if (!next) break;
    enter(attempt, wanted.key, next->url);
    wait_for_turn(attempt, wanted.key);
    next->shown = shown(wanted.key, attempt);
    transfer = std::make_unique<Transfer>(std::move(*next), wanted.fits, wanted.known);
    transfer->run(limits_, attempt.end);
    if (!transfer->is_too_near()) continue;
    attempt.redirect = Failure{"redirect", "a redirect leads to an address of a local network", false};
    break;
  }
  return transfer;
}

// Empty: the redirect is not followed, and `attempt` says why. Secrets are for the origin that was asked first.
std::optional<Request> Origin::next_request(const Transfer& transfer, int followed, Attempt& attempt) const {
  const Request& asked = transfer.request();
  const auto refuse = [&](std::string_view why) {
    const std::string target = shown_location(transfer.head().location);
    attempt.redirect = Failure{
        "redirect",
        formatted("{}: {}{}{}", status_text(transfer.head()), why, target.empty() ? "" : "; it names ", target), false};
    return std::nullopt;
  };
  if (followed >= settings_.redirects)
    return refuse(formatted("more than {} redirects (StoreOptions.redirects)", settings_.redirects));
  std::optional<std::string> target = resolve_location(asked.url, transfer.head().location);
  if (!target) return refuse("the redirect leads to no http(s) address");
  if (asked.url.starts_with("https") && !target->starts_with("https")) return refuse("the redirect leads to http");
  Request next{*target, asked.first, asked.memory, asked.condition};
  if (origin_of(asked.url) == origin_of(*target)) next.headers = asked.headers;
  next.from_end = asked.from_end;
  next.most = followed == 0 ? transfer.reach() : asked.most;
  return next;
}

std::optional<FirstAttempt> Origin::begin(Wanted wanted, std::function<void()> on_end) const {
  const Clock::Time began = settings_.clock->now();
  Attempt attempt{std::chrono::steady_clock::now() + allowance(wanted.memory.size())};
  Request asked = request(wanted, attempt);
  if (attempt.pace->held_until() > settings_.clock->now()) return std::nullopt;
  FirstAttempt first{std::make_unique<Transfer>(std::move(asked), wanted.fits, wanted.known), std::move(attempt.pace),
                     began};
  first.transfer->start(limits_, attempt.end, std::move(on_end));
  return first;
}

std::optional<Address> Origin::listing(std::string_view prefix, std::string_view next, const Attempt& attempt) const {
  return located(prefix, [&] { return service_->listing(prefix, next, attempt.end); });
}

std::unique_ptr<Transfer> Origin::run_whole(std::string_view prefix, Address address, std::span<std::byte> memory,
                                            Attempt& attempt) const {
  enter(attempt, prefix, address.url);
  wait_for_turn(attempt, prefix);
  Request asked{std::move(address.url), 0, memory, {}, std::move(address.headers), /*whole=*/true};
  asked.shown = shown(prefix, attempt);
  auto transfer = std::make_unique<Transfer>(std::move(asked), &is_whole, nullptr);
  transfer->run(limits_, attempt.end);
  return transfer;
}

std::optional<Failure> Origin::failure_of(std::string_view key, const Transfer& transfer, bool known,
                                          bool& absent) const {
  auto usual = http::failure_of(transfer, known);
  if (usual && settings_.repeated_status && transfer.head().status >= 400)
    usual->again = std::ranges::count(*settings_.repeated_status, transfer.head().status) > 0;
  if (!usual || transfer.head().status < 200 || transfer.accepts() || transfer.is_bad_head()) return usual;
  if (!usual->again && is_refusal_cut(transfer)) return refusal_cut(transfer);
  auto judged = located(
      key, [&] { return service_->refused(key, transfer.head(), transfer.refused_body(), known, std::move(*usual)); });
  absent = !judged;
  return judged;
}

// How long a read with all its attempts may take.
Clock::Time Origin::allowance(std::uint64_t bytes) const {
  return settings_.deadline + std::chrono::milliseconds(bytes / 1000);
}

Request Origin::request(const Wanted& wanted, Attempt& attempt) const {
  Address address = located(wanted.key, [&] { return service_->address(wanted.key, attempt.end); });
  enter(attempt, wanted.key, address.url);
  Request asked{std::move(address.url), wanted.first, wanted.memory, wanted.condition, std::move(address.headers)};
  asked.shown = shown(wanted.key, attempt);
  asked.from_end = wanted.from_end;
  if (settings_.hedge) asked.hedges = attempt.pace->hedges();
  return asked;
}

std::string Origin::shown(std::string_view key, const Attempt& attempt) const {
  if (!is_logged(LogLevel::debug)) return {};
  return formatted("{}: {}attempt {}", name_, key.empty() ? std::string() : formatted("{}: ", key), attempt.number);
}

// Sets the pace of the origin that `url` is of. Throws Error(io, "tls") if nothing could check its certificate.
void Origin::enter(Attempt& attempt, std::string_view key, const std::string& url) const {
  attempt.pace = pace_of(url);
  if (attempt.pace->is_first_use()) log_first_use(url);
  if (const std::string& tried = limits_.certificates.missing; !tried.empty() && url.starts_with("https"))
    throw Error(Status::io, formatted("no CA certificates; looked for: {}", tried), "tls").at_key(key).at_store(name_);
}

// Until the origin takes requests.
void Origin::wait_for_turn(const Attempt& attempt, std::string_view key) const {
  const Clock::Time held = attempt.pace->held_until() - settings_.clock->now();
  if (held <= Clock::Time(0)) return;
  if (std::chrono::steady_clock::now() + held >= attempt.end)
    throw Error(Status::io,
                formatted("the server wants no request for {} s more",
                          std::chrono::duration_cast<std::chrono::seconds>(held).count() + 1),
                "throttled")
        .at_key(key)
        .at_store(name_);
  sleep_until(settings_.clock->now() + held);
}

void Origin::sleep_until(Clock::Time until) const {
  constexpr Clock::Time kLook = std::chrono::milliseconds(50);
  for (Clock::Time now = settings_.clock->now(); now < until; now = settings_.clock->now()) {
    leave_if_unwanted();
    std::this_thread::sleep_for(std::min(until - now, kLook));
  }
}

void Origin::log_first_use(const std::string& url) const {
  const bool is_encrypted = url.starts_with("https");
  const std::string origin = url.substr(0, url.find_first_of("/?", url.find("://") + 3));
  log(LogLevel::info, formatted("{}: {} from {}{}{}", without_secrets(origin), curl_facts().version, curl_facts().path,
                                is_encrypted ? "; " : "", is_encrypted ? limits_.certificates.shown : std::string()));
}

Error Origin::error(const Failure& failure, std::string_view key, int attempts, Clock::Time took) const {
  std::string message = failure.text;
  if (std::string_view(failure.reason) == "tls") message += formatted("; {}", limits_.certificates.shown);
  if (attempts > 1) {
    const double seconds = std::chrono::duration<double>(took).count();
    message += formatted(", {} attempts in {} s", attempts, static_cast<double>(static_cast<int>(seconds * 10)) / 10);
  }
  Error made(Status::io, std::move(message), failure.reason);
  if (failure.system_errno != 0) made.with_errno(failure.system_errno);
  if (std::string_view(failure.reason) == "denied") made.with_errno(EACCES);
  if (std::string_view(failure.reason) == "deadline") made.with_errno(ETIMEDOUT);
  return made.at_key(key).at_store(name_);
}

}  // namespace damacy::http
