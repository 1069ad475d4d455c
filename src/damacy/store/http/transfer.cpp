#include "damacy/store/http/transfer.h"

#include <cstring>
#include <utility>
#include <vector>

#include <sys/socket.h>

#include "damacy/core/error.h"
#include "damacy/core/fork.h"
#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"
#include "damacy/store/http/net_threads.h"
#include "damacy/store/storage_watch.h"

namespace damacy::http {
namespace {

constexpr std::size_t kIdleHandles = 512;  // connections belong to the network threads
constexpr std::size_t kErrorBodyBytes = 64 << 10;
constexpr auto kLook = std::chrono::milliseconds(20);  // for work that was given up

// Handles of libcurl that no transfer uses.
class IdleHandles {
 public:
  void* take() {
    {
      const Lock lock(mutex_);
      if (!handles_.empty()) {
        void* const handle = handles_.back();
        handles_.pop_back();
        return handle;
      }
    }
    void* const handle = curl().easy_init();
    if (handle == nullptr) throw Error::out_of_memory();
    return handle;
  }
  void give(void* handle) {
    {
      const Lock lock(mutex_);
      if (handles_.size() < kIdleHandles) {
        handles_.push_back(handle);
        return;
      }
    }
    curl().easy_cleanup(handle);
  }

 private:
  Mutex mutex_;
  std::vector<void*> handles_ DAMACY_GUARDED_BY(mutex_);
};

struct Handle {
  Handle() : value(one_per_process<IdleHandles>().take()) {}
  ~Handle() {
    if (epoch == fork_epoch()) one_per_process<IdleHandles>().give(value);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  const std::uint64_t epoch = fork_epoch();  // a child must not touch its parent's connections, not even to free them
  void* const value;
};

struct HeaderList {
  HeaderList() = default;
  ~HeaderList() { curl().slist_free_all(value); }
  HeaderList(const HeaderList&) = delete;
  HeaderList& operator=(const HeaderList&) = delete;
  void add(const std::string& line) {
    void* const longer = curl().slist_append(value, line.c_str());
    if (longer == nullptr) throw Error::out_of_memory();
    value = longer;
  }
  void* value = nullptr;
};

// Of a child process that this one may start.
int open_close_on_exec(void*, int, CurlSocketAddress* address) noexcept {
  return ::socket(address->family, address->kind | SOCK_CLOEXEC, address->protocol);
}

std::string_view origin_of(std::string_view url) {
  const std::size_t host = url.find("://");
  return url.substr(0, url.find_first_of("/?", host == url.npos ? 0 : host + 3));
}

}  // namespace

bool is_abandoned() noexcept {
  const StorageWatch* const watch = StorageWatch::current();
  return watch != nullptr && watch->abandoned();
}

class Transfer::Flight final : public NetTask, public std::enable_shared_from_this<Flight> {
 public:
  Flight(Request request, Fits fits, const void* known)
      : request_(std::move(request)), fits_(fits), known_(known), epoch_(fork_epoch()) {}

  void start(const TransferLimits& limits, SteadyTime end, std::function<void()> on_end);
  void wait();
  void cancel() noexcept;

  const Head& head() const { return head_; }
  const std::string& refused_body() const { return refused_; }
  std::size_t landed() const { return accepts_ && !is_too_long_ ? landed_ : 0; }
  bool accepts() const { return accepts_; }
  bool is_too_long() const { return is_too_long_; }
  bool is_bad_head() const { return is_bad_head_; }
  int code() const { return code_; }
  std::string problem() const { return one_line(problem_, 200); }
  int system_errno() const { return system_errno_; }

 private:
  void* handle() const noexcept override { return handle_->value; }
  void begins(SteadyTime now) noexcept override;
  bool is_late(SteadyTime now) const noexcept override { return head_.status == 0 && now >= first_byte_end_; }
  void ended(int code) noexcept override;

  void decide();
  static std::size_t on_header(char* line, std::size_t size, std::size_t count, void* self) noexcept;
  static std::size_t on_body(char* bytes, std::size_t size, std::size_t count, void* self) noexcept;

  const Request request_;
  const Fits fits_;
  const void* const known_;
  const std::uint64_t epoch_;
  std::function<void()> on_end_;
  std::optional<Handle> handle_;
  HeaderList headers_;
  std::chrono::milliseconds first_byte_timeout_{};
  SteadyTime end_, first_byte_end_;

  // The network thread's until the end.
  Head head_;
  std::size_t landed_ = 0;
  std::string refused_;
  bool decided_ = false, accepts_ = false, is_too_long_ = false, is_bad_head_ = false;
  int code_ = 0, system_errno_ = 0;
  char problem_[kErrorBytes] = {};

  Mutex mutex_;
  Condition changed_;
  bool is_under_way_ DAMACY_GUARDED_BY(mutex_) = false;
};

void Transfer::Flight::start(const TransferLimits& limits, SteadyTime end, std::function<void()> on_end) {
  on_end_ = std::move(on_end);
  end_ = end;
  first_byte_timeout_ = limits.first_byte_timeout;
  const Curl& api = curl();
  NetThreads& threads = NetThreads::of_process();
  void* const h = handle_.emplace().value;
  headers_.add("Accept-Encoding: identity");
  if (!request_.condition.empty()) headers_.add(request_.condition);
  for (const std::string& line : request_.headers) headers_.add(line);
  const std::string range = formatted("{}-{}", request_.first, request_.first + request_.memory.size() - 1);
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
  set(curl_option::open_socket_function, &open_close_on_exec);
  set(curl_option::error_buffer, static_cast<char*>(problem_));
  set(curl_option::private_data, static_cast<void*>(this));
  set(curl_option::header_function, &Flight::on_header);
  set(curl_option::header_data, static_cast<void*>(this));
  set(curl_option::write_function, &Flight::on_body);
  set(curl_option::write_data, static_cast<void*>(this));
  if (limits.proxy) set(curl_option::proxy, limits.proxy->c_str());
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

void Transfer::Flight::begins(SteadyTime now) noexcept {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_ - now).count();
  curl().easy_setopt(handle_->value, curl_option::timeout_ms, static_cast<long>(std::max<std::int64_t>(left, 1)));
  first_byte_end_ = now + first_byte_timeout_;
}

void Transfer::Flight::ended(int code) noexcept {
  code_ = code;
  if (long number = 0;
      code != curl_code::ok && curl().easy_getinfo(handle_->value, curl_info::os_errno, &number) == curl_code::ok)
    system_errno_ = static_cast<int>(number);
  if (problem_[0] == '\0') {
    const bool is_silent = code == curl_code::timed_out && head_.status == 0;
    std::strncpy(problem_, is_silent ? "the server did not answer in time" : curl().easy_strerror(code),
                 sizeof problem_ - 1);
  }
  decide();
  if (on_end_) std::exchange(on_end_, nullptr)();
  const Lock lock(mutex_);
  is_under_way_ = false;
  changed_.notify_all();
}

void Transfer::Flight::wait() {
  Lock lock(mutex_);
  const auto has_ended = [this]() DAMACY_REQUIRES(mutex_) { return !is_under_way_; };
  if (StorageWatch::current() == nullptr) return changed_.wait(lock, has_ended);
  while (!changed_.wait_for(lock, kLook, has_ended)) {
    lock.unlock();
    if (is_abandoned()) {
      cancel();
      throw Abandoned();
    }
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

Transfer::Transfer(Request request, Fits fits, const void* known)
    : flight_(std::make_shared<Flight>(std::move(request), fits, known)) {}

Transfer::~Transfer() {
  flight_->cancel();
}

void Transfer::start(const TransferLimits& limits, SteadyTime end, std::function<void()> on_end) {
  flight_->start(limits, end, std::move(on_end));
}

void Transfer::wait() {
  flight_->wait();
  if (is_abandoned()) throw Abandoned();
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
int Transfer::system_errno() const {
  return flight_->system_errno();
}

void Transfer::Flight::decide() {
  if (decided_) return;
  decided_ = true;
  accepts_ = head_.status != 0 && fits_(head_, request_, known_);
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
