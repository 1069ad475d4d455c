#include "damacy/store/store_options.h"

#include <algorithm>
#include <cmath>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy {
namespace {

[[noreturn]] void refuse(std::string_view field, std::string_view why) {
  throw Error(Status::inval, formatted("StoreOptions.{}: {}", field, why), "options");
}

std::string lower(std::string_view value) {
  std::string out(value);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

bool is_one_line(std::string_view value) {
  return std::all_of(value.begin(), value.end(),
                     [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f; });
}

bool is_header_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

void check_headers(const StoreOptions& options) {
  for (const auto& [name, value] : options.headers) {
    if (!is_header_name(name)) refuse("headers", formatted("{} is no name of a header", one_line(name, 60)));
    if (!is_one_line(value)) refuse("headers", formatted("the value of {} holds a control character", name));
    const std::string known = lower(name);
    if (known == "host" || known == "range" || known == "accept-encoding" || known == "connection" ||
        known == "transfer-encoding" || known.starts_with("if-") || known.starts_with("content-"))
      refuse("headers", formatted("{} is set by damacy", name));
  }
}

void check_seconds(std::string_view field, double seconds, double least) {
  if (!(std::isfinite(seconds) && seconds >= least && seconds <= 86'400))
    refuse(field, formatted("must be in [{}, 86400] (got {})", least, seconds));
}

void check_endpoint(const std::string& endpoint) {
  const std::size_t begin = endpoint.starts_with("https://") ? 8 : endpoint.starts_with("http://") ? 7 : 0;
  if (begin == 0) refuse("endpoint", "must be http(s)://HOST[:PORT][/PATH]");
  const std::string_view rest = std::string_view(endpoint).substr(begin);
  if (rest.empty() || rest[0] == '/' || rest[0] == ':') refuse("endpoint", "has no host");
  if (rest.find('@') != rest.npos) refuse("endpoint", "must not hold user info");
  if (rest.find_first_of("?#") != rest.npos) refuse("endpoint", "must have no query and no fragment");
  if (std::any_of(rest.begin(), rest.end(), [](char c) { return c <= ' ' || c >= 0x7f; }))
    refuse("endpoint", "must be percent-encoded");
}

}  // namespace

void check(const StoreOptions& options) {
  if (options.endpoint) check_endpoint(*options.endpoint);
  if (options.addressing != "auto" && options.addressing != "path" && options.addressing != "virtual")
    refuse("addressing", formatted("must be path, virtual or auto (got {})", one_line(options.addressing, 60)));
  if (options.access_key_id.has_value() != options.secret_access_key.has_value())
    refuse(options.access_key_id ? "access_key_id" : "secret_access_key",
           "access_key_id and secret_access_key must be given together");
  if (options.session_token && !options.access_key_id)
    refuse("session_token", "needs access_key_id and secret_access_key");
  const int given = int{options.access_key_id.has_value()} + int{options.credentials != nullptr} +
                    int{options.profile.has_value()} + int{options.bearer_token.has_value()};
  if (given > 1) refuse("credentials", "give one of access_key_id, credentials, profile and bearer_token");
  if (options.anonymous == true && given > 0) refuse("anonymous", "must not be True with credentials");
  using Secret = std::pair<const char*, const std::optional<std::string>*>;
  for (const auto& [field, value] :
       {Secret("access_key_id", &options.access_key_id), Secret("secret_access_key", &options.secret_access_key),
        Secret("session_token", &options.session_token), Secret("bearer_token", &options.bearer_token),
        Secret("profile", &options.profile), Secret("region", &options.region)})
    if (*value && ((*value)->empty() || !is_one_line(**value))) refuse(field, "is empty or holds a control character");
  if (options.region && !std::all_of(options.region->begin(), options.region->end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
      }))
    refuse("region", "must consist of lower-case letters, digits and '-'");
  check_headers(options);
  if (options.absent_status.empty()) refuse("absent_status", "must not be empty");
  for (const int status : options.absent_status)
    if (status != 403 && status != 404 && status != 410)
      refuse("absent_status", formatted("must hold 403, 404 or 410 (got {})", status));
  check_seconds("connect_timeout_s", options.connect_timeout_s, 0.001);
  check_seconds("first_byte_timeout_s", options.first_byte_timeout_s, 0.001);
  check_seconds("stall_timeout_s", options.stall_timeout_s, 1);
  check_seconds("deadline_s", options.deadline_s, 0.001);
  check_seconds("revalidate_s", options.revalidate_s, 0);
  if (options.max_requests < 1 || options.max_requests > 4096)
    refuse("max_requests", formatted("must be in [1, 4096] (got {})", options.max_requests));
  if (options.redirects < 0 || options.redirects > 5)
    refuse("redirects", formatted("must be in [0, 5] (got {})", options.redirects));
  if (options.request_bytes < 64 << 10 || options.request_bytes > 64 << 20)
    refuse("request_bytes", formatted("must be in [65536, 67108864] (got {})", options.request_bytes));
  if (options.hedge != "auto" && options.hedge != "on" && options.hedge != "off")
    refuse("hedge", formatted("must be on, off or auto (got {})", one_line(options.hedge, 60)));
  if (options.gap_bytes && (*options.gap_bytes < 0 || *options.gap_bytes > 1 << 20))
    refuse("gap_bytes", formatted("must be in [0, 1048576] (got {})", *options.gap_bytes));
  if (options.attempts < 1 || options.attempts > 20)
    refuse("attempts", formatted("must be in [1, 20] (got {})", options.attempts));
}

}  // namespace damacy
