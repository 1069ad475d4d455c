#include "damacy/store/http/transfer.h"

#include <cstring>
#include <vector>

#include "damacy/core/error.h"
#include "damacy/core/fork.h"
#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"
#include "damacy/store/storage_watch.h"

namespace damacy::http {
namespace {

constexpr std::size_t kIdleHandles = 128;  // each has a connection
constexpr std::size_t kErrorBodyBytes = 64 << 10;

// Handles of libcurl that no thread uses, with their open connections.
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
  ~Handle() { one_per_process<IdleHandles>().give(value); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
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

}  // namespace

bool is_abandoned() noexcept {
  const StorageWatch* const watch = StorageWatch::current();
  return watch != nullptr && watch->abandoned();
}

void Transfer::run(const TransferLimits& limits, std::chrono::steady_clock::time_point end) {
  end_ = end;
  const Curl& api = curl();
  const Handle handle;
  HeaderList headers;
  headers.add("Accept-Encoding: identity");
  if (!request_.condition.empty()) headers.add(request_.condition);
  for (const std::string& line : request_.headers) headers.add(line);
  const std::string range = formatted("{}-{}", request_.first, request_.first + request_.memory.size() - 1);
  void* const h = handle.value;
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
  set(curl_option::http_header, headers.value);
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
  set(curl_option::error_buffer, static_cast<char*>(problem_));
  set(curl_option::header_function, &Transfer::on_header);
  set(curl_option::header_data, static_cast<void*>(this));
  set(curl_option::write_function, &Transfer::on_body);
  set(curl_option::write_data, static_cast<void*>(this));
  set(curl_option::transfer_function, &Transfer::on_progress);
  set(curl_option::transfer_data, static_cast<void*>(this));
  set(curl_option::no_progress, 0L);
  if (limits.proxy) set(curl_option::proxy, limits.proxy->c_str());
  if (!limits.ca_file.empty()) set(curl_option::ca_file, limits.ca_file.c_str());
  code_ = api.easy_perform(h);
  if (is_abandoned()) throw Abandoned();
  if (problem_[0] == '\0') std::strncpy(problem_, api.easy_strerror(code_), sizeof problem_ - 1);
  decide();
}

std::string Transfer::problem() const {
  return one_line(problem_, 200);
}

void Transfer::decide() {
  if (decided_) return;
  decided_ = true;
  accepts_ = head_.status != 0 && fits_(head_, request_, known_);
}

std::size_t Transfer::on_header(char* line, std::size_t size, std::size_t count, void* self) noexcept {
  auto& transfer = *static_cast<Transfer*>(self);
  try {
    if (transfer.head_.add_line({line, size * count})) return size * count;
  } catch (...) {  // no memory: libcurl is C, and ends the transfer
  }
  transfer.is_bad_head_ = true;
  return 0;
}

std::size_t Transfer::on_body(char* bytes, std::size_t size, std::size_t count, void* self) noexcept {
  auto& transfer = *static_cast<Transfer*>(self);
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

// Called by libcurl at least once a second.
int Transfer::on_progress(void* self, std::int64_t, std::int64_t, std::int64_t, std::int64_t) noexcept {
  auto& transfer = *static_cast<Transfer*>(self);
  transfer.is_late_ = std::chrono::steady_clock::now() >= transfer.end_;
  return transfer.is_late_ || is_abandoned() ? 1 : 0;
}

}  // namespace damacy::http
