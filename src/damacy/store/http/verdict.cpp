#include "damacy/store/http/verdict.h"

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy::http {
namespace {

// Of an answer whose status says that there is no body to use. `known`: the object was there before.
Failure refused(const Head& head, bool known) {
  const std::string status = status_text(head);
  switch (head.status) {
    case 404:
    case 410:
      if (known) return {"changed", formatted("{}: the object is gone", status), false};
      return {"http", status, false};
    case 412:
      return {"changed", formatted("{}: the object is not the version that was opened", status), false};
    case 401:
    case 403:
      return {"denied", formatted("{}: the server denies access; an absent key may be answered so, too", status),
              false};
    case 407:
      return {"connect", formatted("{}: the proxy wants credentials, or other ones", status), false};
    case 416:
      return {"short-read", formatted("{}: the object ends before the range", status), false};
    case 429:
    case 503:
      return {"throttled", status, true};
    case 408:
    case 500:
    case 502:
    case 504:
      return {"http", status, true};
    default:
      break;
  }
  if (head.status >= 300 && head.status < 400) {
    const std::string target = shown_location(head.location);
    return {"redirect",
            formatted("{}: redirects are not followed (StoreOptions.redirects){}", status,
                      target.empty() ? target : formatted("; this one leads to {}", target)),
            false};
  }
  if (head.status >= 200 && head.status < 300) {
    if (!head.encoding.empty())
      return {"encoded", formatted("stored with Content-Encoding {}: upload it without", one_line(head.encoding, 40)),
              false};
    if (head.status == 200 && !head.range) return {"range", "the server ignores Range", true, Once::misfit};
    return {"range", formatted("{} with another range than was asked for", status), true, Once::misfit};
  }
  return {"http", status, false};
}

// Of a handshake: the connection ended. The words are of OpenSSL and GnuTLS.
bool is_broken_off(std::string_view problem) {
  for (const std::string_view words :
       {"SSL_ERROR_SYSCALL", "reset by peer", "unexpected eof", "non-properly terminated"})
    if (problem.find(words) != problem.npos) return true;
  return false;
}

// The status with which a proxy refused a tunnel. The words are of libcurl, old and new.
std::optional<int> refused_tunnel(std::string_view problem) {
  for (const std::string_view words : {"CONNECT tunnel failed, response ", "Received HTTP code "}) {
    const std::size_t at = problem.find(words);
    if (at == problem.npos || at + words.size() + 3 > problem.size()) continue;
    const auto code = parse_length(problem.substr(at + words.size(), 3));
    if (code) return static_cast<int>(*code);
  }
  return std::nullopt;
}

}  // namespace

std::string status_text(const Head& head, std::string_view code) {
  std::string out = formatted("GET {}", head.status);
  if (!code.empty()) out += formatted(" {}", one_line(code, 60));
  if (!head.request_id.empty()) out += formatted(", request {}", one_line(head.request_id, 100));
  return out;
}

bool is_plain(const Head& head) {
  return !head.is_malformed && !head.is_multipart && head.encoding.empty();
}

bool is_range(const Head& head, std::uint64_t first, std::uint64_t count, std::optional<std::uint64_t> total) {
  if ((head.status != 206 && head.status != 200) || !is_plain(head) || !head.range || !head.range->first) return false;
  if (!head.range->total || (total && *total != *head.range->total)) return false;
  return *head.range->first == first && head.range->last == first + count - 1 && head.length.value_or(count) == count;
}

Failure broken(const Transfer& transfer) {
  const std::string problem = transfer.problem();
  if (transfer.is_timed_out()) return {"deadline", problem, true};
  if (const auto code = refused_tunnel(problem))
    return {"connect", formatted("the proxy refuses the connection: CONNECT {}", *code), *code >= 500};
  switch (transfer.code()) {
    case curl_code::ok:
      return {"io", "the connection ended in the head of the answer", true, Once::no, false, true};
    case curl_code::resolve_proxy:
    case curl_code::resolve_host:
      return {"dns", problem, true};
    case curl_code::connect:
      return {"connect", problem, true, Once::no, false, true, transfer.system_errno()};
    case curl_code::ssl_connect:
      if (is_broken_off(problem)) return {"io", problem, true, Once::no, false, true, transfer.system_errno()};
      return {"tls", problem, false};
    case curl_code::ssl_certificate:
    case curl_code::ssl_cipher:
    case curl_code::peer_failed_verification:
    case curl_code::ca_file:
    case curl_code::ssl_issuer:
      return {"tls", problem, false};
    case curl_code::got_nothing:
    case curl_code::send:
    case curl_code::receive:
      return {"io", problem, true, Once::no, false, true, transfer.system_errno()};
    default:
      return {"io", problem, true};
  }
}

Failure ended_early(const Transfer& transfer, std::uint64_t missing) {
  std::string problem = formatted("the answer ended {} bytes early", missing);
  if (transfer.is_timed_out()) return {"deadline", std::move(problem), true};
  return {"io", std::move(problem), true, Once::no, false, true, transfer.system_errno()};
}

bool is_refusal_cut(const Transfer& transfer) {
  return transfer.code() != curl_code::ok && transfer.code() != curl_code::write;  // a long body is not read on
}

Failure refusal_cut(const Transfer& transfer) {
  const std::string problem = formatted("{}, whose body ended early", status_text(transfer.head()));
  if (transfer.is_timed_out()) return {"deadline", problem, true};
  return {"io", problem, true, Once::no, false, true, transfer.system_errno()};
}

std::optional<Failure> failure_of(const Transfer& transfer, bool known) {
  const Head& head = transfer.head();
  if (transfer.is_bad_head()) return Failure{"io", "the head of the answer is malformed or too long", true};
  if (transfer.is_too_long())
    return Failure{"range", formatted("{} with too long a body", status_text(head)), true, Once::misfit};
  if (transfer.accepts()) return std::nullopt;
  if (head.status < 200) return broken(transfer);
  return refused(head, known);
}

}  // namespace damacy::http
