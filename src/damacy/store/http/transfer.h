// One request and its answer, on the calling thread. The body lands in the caller's memory, if the head says that it is
// what was asked for. Knows libcurl; not objects, versions or repeats.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "damacy/store/http/answer.h"
#include "damacy/store/http/curl.h"

namespace damacy::http {

// What is asked for: `memory.size()` bytes from `first` on, or the whole answer, which is not longer than `memory`.
struct Request {
  std::string url;
  std::uint64_t first = 0;
  std::span<std::byte> memory;
  std::string condition;               // a header line, or empty
  std::vector<std::string> headers{};  // more lines
  bool whole = false;                  // no Range
  std::string_view method = "GET";     // GET, HEAD, PUT or POST
  std::string body{};                  // of PUT and POST
};

struct TransferLimits {
  std::chrono::milliseconds connect_timeout;
  std::chrono::seconds stall_timeout;
  std::string ca_file;               // empty: libcurl's own
  std::optional<std::string> proxy;  // empty: by the environment; "": none
};

// Whether the calling thread's work was given up by those who waited for it.
[[nodiscard]] bool is_abandoned() noexcept;

class Transfer {
 public:
  // Whether a body is what was asked for, by its head.
  using Fits = bool (*)(const Head& head, const Request& request, const void* known);

  // `request` and `known` outlive it.
  Transfer(const Request& request, Fits fits, const void* known) : request_(request), fits_(fits), known_(known) {}

  // Once; ends a little after `end`. Throws Abandoned, and Error(inval, "no-http").
  void run(const TransferLimits& limits, std::chrono::steady_clock::time_point end);

  const Head& head() const { return head_; }
  // Of an answer that was not accepted: the first 64 KiB.
  const std::string& refused_body() const { return refused_; }
  // Bytes of the memory that are right: none of a body that is longer than what was asked for.
  std::size_t landed() const { return accepts_ && !is_too_long_ ? landed_ : 0; }
  bool accepts() const { return accepts_; }
  bool is_too_long() const { return is_too_long_; }
  bool is_bad_head() const { return is_bad_head_; }
  int code() const { return code_; }
  bool is_timed_out() const { return is_late_ || code_ == curl_code::timed_out; }
  std::string problem() const;

 private:
  void decide();
  static std::size_t on_header(char* line, std::size_t size, std::size_t count, void* self) noexcept;
  static std::size_t on_body(char* bytes, std::size_t size, std::size_t count, void* self) noexcept;
  static int on_progress(void*, std::int64_t, std::int64_t, std::int64_t, std::int64_t) noexcept;

  const Request& request_;
  const Fits fits_;
  const void* const known_;
  Head head_;
  std::size_t landed_ = 0;
  std::string refused_;
  bool decided_ = false, accepts_ = false, is_too_long_ = false, is_bad_head_ = false, is_late_ = false;
  std::chrono::steady_clock::time_point end_;
  int code_ = 0;
  char problem_[kErrorBytes] = {};
};

}  // namespace damacy::http
