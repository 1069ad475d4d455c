// One request and its answer, carried by a network thread. The body lands in the caller's memory, if the head says that
// it is what was asked for. Knows libcurl; not objects, versions or repeats.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "damacy/store/http/answer.h"
#include "damacy/store/http/certificates.h"
#include "damacy/store/http/curl.h"
#include "damacy/store/http/redirect.h"
#include "damacy/store/network_counts.h"

namespace damacy::http {

class Hedges;

// What is asked for: `memory.size()` bytes from `first` on, or the last so many, or the whole answer, which is not
// longer than `memory`.
struct Request {
  std::string url;
  std::uint64_t first = 0;
  std::span<std::byte> memory;
  std::string condition;               // a header line, or empty
  std::vector<std::string> headers{};  // more lines
  bool whole = false;                  // no Range
  std::string_view method = "GET";     // GET, HEAD, PUT or POST
  std::string body{};                  // of PUT and POST
  Reach most{Reach::link};             // an address nearer to this machine is not asked
  std::string shown{};                 // what a record of it begins with; empty: there is none
  bool from_end = false;               // the last bytes
  std::shared_ptr<Hedges> hedges{};    // sent once more if its first byte is late; null: it is not
};

struct TransferLimits {
  std::chrono::milliseconds connect_timeout;
  std::chrono::seconds stall_timeout;
  Certificates certificates;
  std::optional<std::string> proxy;  // empty: by the environment; "": none
  std::chrono::milliseconds first_byte_timeout{20'000};
  std::size_t max_requests = 256;                   // under way to one origin, of all stores; more wait for their turn
  std::shared_ptr<NetworkCounts> counts = nullptr;  // null: they are not counted
};

// Throws Abandoned if the calling thread's work was given up by those who waited for it, and Error(shutdown, "closed")
// if its remote calls are cancelled.
void leave_if_unwanted();

// Used by one thread at a time, except the functions that a network thread calls. Where it is destroyed before its end
// it is cancelled: no byte lands afterwards.
class Transfer {
 public:
  // Whether a body is what was asked for, by its head. Called on a network thread.
  using Fits = bool (*)(const Head& head, const Request& request, const void* known);

  Transfer(Request request, Fits fits, std::shared_ptr<const void> known);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // Once; ends a little after `end`, and then calls `on_end` on a network thread, or on this one, which must not wait
  // for the transfer. Throws Error(inval, "no-http") and Error(oom).
  void start(const TransferLimits& limits, std::chrono::steady_clock::time_point end,
             std::function<void()> on_end = {});
  // Until it has ended. Throws Abandoned: then it is cancelled.
  void wait();
  // Both.
  void run(const TransferLimits& limits, std::chrono::steady_clock::time_point end) {
    start(limits, end);
    wait();
  }

  // After its end.
  const Head& head() const;
  // Of an answer that was not accepted: the first 64 KiB.
  const std::string& refused_body() const;
  // Bytes of the memory that are right: none of a body that is longer than what was asked for.
  std::size_t landed() const;
  bool accepts() const;
  bool is_too_long() const;
  bool is_bad_head() const;
  int code() const;
  bool is_timed_out() const;
  std::string problem() const;
  int system_errno() const;  // of the connection; 0: unknown
  Reach reach() const;       // of the server, or of the proxy
  bool is_too_near() const;  // it was not asked, or its answer does not count: Request::most
  const Request& request() const;

 private:
  class Flight;

  const std::shared_ptr<Flight> flight_;  // with the network thread, until its end
};

}  // namespace damacy::http
