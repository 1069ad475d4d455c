#include "damacy/store/http/transfer.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include <sys/socket.h>

#include "damacy/core/error.h"
#include "damacy/core/fork.h"
#include "damacy/core/formatted.h"
#include "damacy/core/log.h"
#include "damacy/core/mutex.h"
#include "damacy/core/on_failure.h"
#include "damacy/core/size_text.h"
#include "damacy/store/http/handles.h"
#include "damacy/store/http/hedges.h"
#include "damacy/store/http/net_threads.h"
#include "damacy/store/storage_watch.h"

namespace damacy::http {
namespace {

constexpr std::size_t kErrorBodyBytes = 64 << 10;
constexpr auto kLook = std::chrono::milliseconds(20);  // for work that was given up

std::string range_of(const Request& request) {
  if (request.from_end) return formatted("-{}", request.memory.size());
  return formatted("{}-{}", request.first, request.first + request.memory.size() - 1);
}

}  // namespace

void leave_if_unwanted() {
  const StorageWatch* const watch = StorageWatch::current();
  const std::atomic<bool>* const cancelled = CancelScope::current();
  if ((watch != nullptr && watch->abandoned()) || (cancelled != nullptr && *cancelled)) throw Abandoned();
  if (watch != nullptr && watch->remote_is_cancelled())
    throw Error(Status::shutdown, "the request was cancelled: its pipeline was closed", "closed");
}

class Transfer::Flight final : public NetTask, public std::enable_shared_from_this<Flight> {
 public:
  Flight(Request request, Fits fits, std::shared_ptr<const void> known)
      : request_(std::move(request)), fits_(fits), known_(std::move(known)), epoch_(fork_epoch()) {}

  void start(const TransferLimits& limits, SteadyTime end, std::function<void()> on_end);
  void wait();
  void cancel() noexcept;

  const Head& head() const { return head_; }
  const std::string& refused_body() const { return refused_; }
  std::size_t landed() const { return accepts_ && !is_too_long_ && !is_too_near_ ? landed_ : 0; }
  bool accepts() const { return accepts_; }
  bool is_too_long() const { return is_too_long_; }
  bool is_bad_head() const { return is_bad_head_; }
  int code() const { return code_; }
  std::string problem() const { return one_line(problem_, 200); }
  int system_errno() const { return system_errno_; }
  Reach reach() const { return reach_; }
  bool is_too_near() const { return is_too_near_; }
  const Request& request() const { return request_; }

 private:
  void* handle() const noexcept override { return handle_->value; }
  void begins(SteadyTime now, std::size_t allowed) noexcept override;
  bool is_late(SteadyTime now) const noexcept override { return head_.status == 0 && now >= first_byte_end_; }
  void look(SteadyTime now) noexcept override;
  RequestWindow::End outcome(int code) const noexcept override;
  void ended(int code) noexcept override;

  // Since the request was sent; empty: there was none.
  std::optional<std::chrono::microseconds> first_byte() const noexcept;
  // The same request once more, with memory of its own: whichever has all its bytes first counts, and the other one is
  // cancelled.
  void send_hedge();
  void hedge_ended(const Flight& hedge) noexcept;
  void settle_hedge(int& code) noexcept;
  bool is_all_there() const noexcept { return code_ == curl_code::ok && accepts_ && !is_too_long_; }

  bool is_throttled() const noexcept { return head_.status == 429 || head_.status == 503; }
  void count() noexcept;
  std::string times_text() const;
  void log_end() const;
  void decide();
  static int open_socket(void* self, int, CurlSocketAddress* address) noexcept;
  static std::size_t on_header(char* line, std::size_t size, std::size_t count, void* self) noexcept;
  static std::size_t on_body(char* bytes, std::size_t size, std::size_t count, void* self) noexcept;

  const Request request_;
  const Fits fits_;
  const std::shared_ptr<const void> known_;
  const std::uint64_t epoch_;
  std::function<void()> on_end_;
  std::optional<Handle> handle_;
  HeaderList headers_;
  std::chrono::milliseconds first_byte_timeout_{};
  std::size_t max_requests_ = 0;
  std::shared_ptr<NetworkCounts> counts_;
  SteadyTime end_, first_byte_end_;
  TransferLimits limits_{};

  // Of a hedge.
  std::weak_ptr<Flight> hedged_;  // for whom it is
  std::vector<std::byte> own_memory_;

  // The network thread's until the end.
  Head head_;
  std::optional<SteadyTime> began_;  // empty: it was not sent
  std::size_t landed_ = 0, body_bytes_ = 0;
  std::string refused_;
  bool decided_ = false, accepts_ = false, is_too_long_ = false, is_bad_head_ = false;
  int code_ = 0, system_errno_ = 0;
  Reach reach_ = Reach::unknown;
  std::atomic<bool> is_too_near_{false};
  char problem_[kErrorBytes] = {};

  Mutex mutex_;
  Condition changed_;
  bool is_under_way_ DAMACY_GUARDED_BY(mutex_) = false;
  std::shared_ptr<Flight> hedge_ DAMACY_GUARDED_BY(mutex_);  // until the end of either
  bool hedge_won_ DAMACY_GUARDED_BY(mutex_) = false;
  bool is_hedged_ = false, is_of_hedge_ = false;  // the network thread's: it was sent once more; that answer counts
};

void Transfer::Flight::start(const TransferLimits& limits, SteadyTime end, std::function<void()> on_end) {
  on_end_ = std::move(on_end);
  end_ = end;
  first_byte_timeout_ = limits.first_byte_timeout;
  max_requests_ = limits.max_requests;
  counts_ = limits.counts;
  if (request_.hedges) limits_ = limits;
  const Curl& api = curl();
  NetThreads& threads = NetThreads::of_process();
  void* const h = handle_.emplace().value;
  headers_.add("Accept-Encoding: identity");
  if (!request_.condition.empty()) headers_.add(request_.condition);
  for (const std::string& line : request_.headers) headers_.add(line);
  const std::string range = range_of(request_);
  const auto set = [&](int option, auto value) { static_cast<void>(api.easy_setopt(h, option, value)); };
  api.easy_reset(h);
  set(curl_option::url, request_.url.c_str());
  if (!request_.whole) set(curl_option::range, range.c_str());
  if (request_.method == "HEAD") {
    set(curl_option::no_body, 1L);
  } else if (request_.method != "GET") {
    set(curl_option::post_fields, request_.body.c_str());
    set(curl_option::post_field_size, static_cast<long>(request_.body.size()));
    set(curl_option::custom_request, request_.method == "PUT" ? "PUT" : "POST");
  }
  set(curl_option::http_header, headers_.value);
  set(curl_option::user_agent, "damacy");
  set(curl_option::protocols, long{kHttpAndHttps});
  set(curl_option::http_version, long{kHttp11});
  set(curl_option::http09, 0L);
  set(curl_option::ssl_version, long{kTls12});
  set(curl_option::netrc, 0L);
  set(curl_option::follow, 0L);
  set(curl_option::suppress_connect_headers, 1L);  // what a proxy says of a tunnel is no answer of the server
  set(curl_option::content_decoding, 0L);
  set(curl_option::no_signal, 1L);
  set(curl_option::keep_alive, 1L);
  set(curl_option::buffer_size, 64L << 10);
  set(curl_option::connect_timeout_ms, static_cast<long>(limits.connect_timeout.count()));
  set(curl_option::low_speed_limit, 1024L);
  set(curl_option::low_speed_time, static_cast<long>(limits.stall_timeout.count()));
  set(curl_option::shuffle_addresses, 1L);
  set(curl_option::idle_connection_s, 30L);
  set(curl_option::quick_exit, 1L);  // no removal of the handle waits for a name
  set(curl_option::open_socket_function, &Flight::open_socket);
  set(curl_option::open_socket_data, static_cast<void*>(this));
  set(curl_option::error_buffer, static_cast<char*>(problem_));
  set(curl_option::private_data, static_cast<void*>(this));
  set(curl_option::header_function, &Flight::on_header);
  set(curl_option::header_data, static_cast<void*>(this));
  set(curl_option::write_function, &Flight::on_body);
  set(curl_option::write_data, static_cast<void*>(this));
  if (limits.proxy)
    set(curl_option::proxy, limits.proxy->c_str());
  else if ((!request_.headers.empty() || request_.url.find('?') != std::string::npos) &&
           is_of_this_machine(request_.url) && !request_.url.starts_with("https"))
    set(curl_option::proxy, "");  // secrets in headers and queries stay here, whatever the environment says
  if (const std::string& file = limits.certificates.file; !file.empty()) set(curl_option::ca_file, file.c_str());
  if (const std::string& folder = limits.certificates.directory; !folder.empty())
    set(curl_option::ca_directory, folder.c_str());
  {
    const Lock lock(mutex_);
    is_under_way_ = true;
  }
  const auto failure =
      damacy::failure_of([&] { threads.submit(shared_from_this(), origin_of(request_.url), limits.max_requests); });
  if (!failure) return;
  const Lock lock(mutex_);
  is_under_way_ = false;
  throw *failure;
}

void Transfer::Flight::begins(SteadyTime now, std::size_t allowed) noexcept {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_ - now).count();
  curl().easy_setopt(handle_->value, curl_option::timeout_ms, static_cast<long>(std::max<std::int64_t>(left, 1)));
  first_byte_end_ = now + first_byte_timeout_;
  began_ = now;
  if (counts_) counts_->began(max_requests_, allowed);
}

RequestWindow::End Transfer::Flight::outcome(int code) const noexcept {
  using How = RequestWindow::How;
  const bool is_refused = is_throttled() || code == curl_code::connect;
  const How how = is_refused                     ? How::refused
                  : code == curl_code::timed_out ? How::stalled
                  : code == curl_code::ok        ? How::answered
                                                 : How::other;
  return {how, body_bytes_, began_ ? began_->time_since_epoch() : Clock::Time{}, false,
          first_byte().value_or(std::chrono::microseconds(0))};
}

std::optional<std::chrono::microseconds> Transfer::Flight::first_byte() const noexcept {
  const Curl& api = curl();
  std::int64_t sent_us = 0, first_byte_us = 0;
  if (head_.status == 0 || is_of_hedge_ ||
      api.easy_getinfo(handle_->value, curl_info::sent_us, &sent_us) != curl_code::ok ||
      api.easy_getinfo(handle_->value, curl_info::first_byte_us, &first_byte_us) != curl_code::ok)
    return std::nullopt;
  return std::chrono::microseconds(std::max<std::int64_t>(first_byte_us - sent_us, 0));
}

void Transfer::Flight::count() noexcept {
  if (!counts_ || !began_) return;
  const Curl& api = curl();
  NetworkCounts::End end;
  end.began = *began_;
  end.body_bytes = static_cast<std::int64_t>(body_bytes_);
  end.is_throttled = is_throttled();
  if (long opened = 0; api.easy_getinfo(handle_->value, curl_info::connections, &opened) == curl_code::ok)
    end.connections = opened;
  if (const auto time = first_byte()) end.first_byte = *time;
  counts_->ended(std::chrono::steady_clock::now(), end);
}

// Of a new connection: when its steps ended, and of every answer when it began.
std::string Transfer::Flight::times_text() const {
  const auto ms_of = [this](int info) {
    std::int64_t us = 0;
    static_cast<void>(curl().easy_getinfo(handle_->value, info, &us));
    return std::round(static_cast<double>(us) / 100) / 10;
  };
  std::string text;
  if (long opened = 0;
      curl().easy_getinfo(handle_->value, curl_info::connections, &opened) == curl_code::ok && opened > 0) {
    text = formatted("name {}, connected {}, ", ms_of(curl_info::name_us), ms_of(curl_info::connected_us));
    if (request_.url.starts_with("https")) text += formatted("TLS {}, ", ms_of(curl_info::secured_us));
  }
  if (head_.status != 0) return formatted(" ({}first byte {})", text, ms_of(curl_info::first_byte_us));
  return text.empty() ? text : formatted(" ({})", std::string_view(text).substr(0, text.size() - 2));
}

void Transfer::Flight::log_end() const {
  const double ms =
      began_ ? std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - *began_).count() : 0;
  const std::string range = request_.whole ? "whole" : formatted("bytes {}", range_of(request_));
  const std::string result = head_.status != 0 ? formatted("{}", head_.status) : problem();
  log(LogLevel::debug, formatted("{}: {} {}: {}, {} in {} ms{}{}{}", request_.shown, request_.method, range, result,
                                 size_text(body_bytes_), std::round(ms * 10) / 10, times_text(),
                                 head_.request_id.empty() ? "" : ", request ", one_line(head_.request_id, 100)));
}

void Transfer::Flight::look(SteadyTime now) noexcept {
  if (!request_.hedges || is_hedged_ || !began_ || head_.status != 0) return;
  Hedges& hedges = *request_.hedges;
  const auto patience = hedges.patience();
  if (!patience || now - *began_ < *patience || !hedges.pay()) return;
  is_hedged_ = true;
  static_cast<void>(damacy::failure_of([&] { send_hedge(); }));  // without memory it goes on alone
}

void Transfer::Flight::send_hedge() {
  Request again = request_;
  again.hedges = nullptr;
  std::vector<std::byte> memory(request_.memory.size());
  again.memory = memory;
  if (!again.shown.empty()) again.shown += " hedge";
  const auto hedge = std::make_shared<Flight>(std::move(again), fits_, known_);
  hedge->own_memory_ = std::move(memory);
  hedge->hedged_ = weak_from_this();
  {
    const Lock lock(mutex_);
    hedge_ = hedge;
  }
  const OnFailure undo([&] {
    const Lock lock(mutex_);
    hedge_ = nullptr;
  });
  hedge->start(limits_, end_, {});
  if (counts_) counts_->hedged();
}

// On any network thread, or on the one that cancels the hedge.
void Transfer::Flight::hedge_ended(const Flight& hedge) noexcept {
  {
    const Lock lock(mutex_);
    if (hedge_.get() != &hedge) return;
    if (!hedge.is_all_there()) {
      hedge_ = nullptr;
      return;
    }
    hedge_won_ = true;
  }
  NetThreads::of_process().cancel(shared_from_this());
}

// At this one's own end: takes the answer of the hedge, or cancels it.
void Transfer::Flight::settle_hedge(int& code) noexcept {
  std::shared_ptr<Flight> hedge;
  bool won = false;
  {
    const Lock lock(mutex_);
    hedge = std::exchange(hedge_, nullptr);
    won = hedge && hedge_won_ && code != curl_code::ok;
  }
  if (!hedge) return;
  if (!won) return NetThreads::of_process().cancel(hedge);
  std::memcpy(request_.memory.data(), hedge->own_memory_.data(), hedge->landed_);
  head_ = hedge->head_;
  landed_ = hedge->landed_;
  decided_ = accepts_ = is_of_hedge_ = true;
  is_too_long_ = is_bad_head_ = is_too_near_ = false;
  reach_ = hedge->reach_;
  code = curl_code::ok;
  if (counts_) counts_->hedge_won();
}

void Transfer::Flight::ended(int code) noexcept {
  settle_hedge(code);
  code_ = code;
  if (long number = 0;
      code != curl_code::ok && curl().easy_getinfo(handle_->value, curl_info::os_errno, &number) == curl_code::ok)
    system_errno_ = static_cast<int>(number);
  if (problem_[0] == '\0') {
    const bool is_silent = code == curl_code::timed_out && head_.status == 0;
    std::strncpy(problem_, is_silent ? "the server did not answer in time" : curl().easy_strerror(code),
                 sizeof problem_ - 1);
  }
  // Of a connection that another transfer opened, too.
  if (const char* address = nullptr;
      !is_of_hedge_ && curl().easy_getinfo(handle_->value, curl_info::primary_address, &address) == curl_code::ok &&
      address != nullptr)
    reach_ = reach_of_text(address);
  if (!may_lead(request_.most, reach_)) is_too_near_ = true;
  if (!head_.is_complete) head_ = Head();  // libcurl calls a head that was cut a success
  decide();
  count();
  if (const auto time = first_byte(); time && request_.hedges) request_.hedges->answered(*time);
  if (!request_.shown.empty()) static_cast<void>(damacy::failure_of([&] { log_end(); }));
  if (const auto hedged = hedged_.lock()) hedged->hedge_ended(*this);
  const std::function<void()> on_end = std::exchange(on_end_, nullptr);  // may own this transfer: ends after the lock
  if (on_end) on_end();
  const Lock lock(mutex_);
  is_under_way_ = false;
  changed_.notify_all();
}

void Transfer::Flight::wait() {
  Lock lock(mutex_);
  const auto has_ended = [this]() DAMACY_REQUIRES(mutex_) { return !is_under_way_; };
  if (StorageWatch::current() == nullptr && CancelScope::current() == nullptr) return changed_.wait(lock, has_ended);
  while (!changed_.wait_for(lock, kLook, has_ended)) {
    lock.unlock();
    const OnFailure undo([this] { cancel(); });
    leave_if_unwanted();
    lock.lock();
  }
}

void Transfer::Flight::cancel() noexcept {
  if (epoch_ != fork_epoch()) return;  // the network thread is the parent's
  Lock lock(mutex_);
  if (!is_under_way_) return;
  lock.unlock();
  NetThreads::of_process().cancel(shared_from_this());
  lock.lock();
  changed_.wait(lock, [this]() DAMACY_REQUIRES(mutex_) { return !is_under_way_; });
}

Transfer::Transfer(Request request, Fits fits, std::shared_ptr<const void> known)
    : flight_(std::make_shared<Flight>(std::move(request), fits, std::move(known))) {}

Transfer::~Transfer() {
  flight_->cancel();
}

void Transfer::start(const TransferLimits& limits, SteadyTime end, std::function<void()> on_end) {
  flight_->start(limits, end, std::move(on_end));
}

void Transfer::wait() {
  flight_->wait();
  leave_if_unwanted();
}

const Head& Transfer::head() const {
  return flight_->head();
}
const std::string& Transfer::refused_body() const {
  return flight_->refused_body();
}
std::size_t Transfer::landed() const {
  return flight_->landed();
}
bool Transfer::accepts() const {
  return flight_->accepts();
}
bool Transfer::is_too_long() const {
  return flight_->is_too_long();
}
bool Transfer::is_bad_head() const {
  return flight_->is_bad_head();
}
int Transfer::code() const {
  return flight_->code();
}
bool Transfer::is_timed_out() const {
  return flight_->code() == curl_code::timed_out;
}
std::string Transfer::problem() const {
  return flight_->problem();
}
Reach Transfer::reach() const {
  return flight_->reach();
}
bool Transfer::is_too_near() const {
  return flight_->is_too_near();
}
const Request& Transfer::request() const {
  return flight_->request();
}
int Transfer::system_errno() const {
  return flight_->system_errno();
}

// Not for child processes that this one may start.
int Transfer::Flight::open_socket(void* self, int, CurlSocketAddress* address) noexcept {
  auto& transfer = *static_cast<Flight*>(self);
  if (!may_lead(transfer.request_.most, reach_of(*reinterpret_cast<const sockaddr*>(address + 1)))) {
    transfer.is_too_near_ = true;
    return -1;  // CURL_SOCKET_BAD
  }
  return ::socket(address->family, address->kind | SOCK_CLOEXEC, address->protocol);
}

void Transfer::Flight::decide() {
  if (decided_) return;
  decided_ = true;
  accepts_ = head_.status != 0 && !is_too_near_ && fits_(head_, request_, known_.get());
}

std::size_t Transfer::Flight::on_header(char* line, std::size_t size, std::size_t count, void* self) noexcept {
  auto& transfer = *static_cast<Flight*>(self);
  try {
    if (transfer.head_.add_line({line, size * count})) return size * count;
  } catch (...) {  // no memory: libcurl is C, and ends the transfer
  }
  transfer.is_bad_head_ = true;
  return 0;
}

std::size_t Transfer::Flight::on_body(char* bytes, std::size_t size, std::size_t count, void* self) noexcept {
  auto& transfer = *static_cast<Flight*>(self);
  const std::size_t length = size * count;
  transfer.body_bytes_ += length;
  transfer.decide();
  const std::span<std::byte> memory = transfer.request_.memory;
  if (!transfer.accepts_) {
    if (transfer.refused_.size() + length > kErrorBodyBytes) return 0;
    try {
      transfer.refused_.append(bytes, length);
    } catch (...) {  // no memory: libcurl is C
      return 0;
    }
    return length;
  }
  if (length > memory.size() - transfer.landed_) {
    transfer.is_too_long_ = true;
    return 0;
  }
  std::memcpy(memory.data() + transfer.landed_, bytes, length);
  transfer.landed_ += length;
  return length;
}

}  // namespace damacy::http
