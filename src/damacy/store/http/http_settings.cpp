#include "damacy/store/http/http_settings.h"

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/text.h"

namespace damacy::http {
namespace {

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

}  // namespace

HttpSettings settings_of(const StoreOptions& options) {
  HttpSettings settings;
  settings.attempts = options.attempts;
  settings.connect_timeout = milliseconds_of(options.connect_timeout_s);
  settings.stall_timeout = std::chrono::seconds(static_cast<std::int64_t>(options.stall_timeout_s));
  settings.first_byte_timeout = milliseconds_of(options.first_byte_timeout_s);
  settings.max_requests = static_cast<std::size_t>(options.max_requests);
  settings.deadline = milliseconds_of(options.deadline_s);
  settings.revalidate_after =
      options.immutable ? std::chrono::milliseconds(std::chrono::years(100)) : milliseconds_of(options.revalidate_s);
  settings.ca_file = options.ca_file.value_or("");
  settings.proxy = options.proxy;
  settings.absent_status = options.absent_status;
  settings.immutable = options.immutable;
  settings.allow_unversioned = options.allow_unversioned;
  for (const auto& [name, value] : options.headers) settings.headers.push_back(text(name, ": ", value));
  if (options.bearer_token) settings.headers.push_back(text("Authorization: Bearer ", *options.bearer_token));
  return settings;
}

bool is_loopback(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, host.find(']') + 1) == "[::1]";
  host = host.substr(0, host.find(':'));
  return host == "localhost" || host.ends_with(".localhost") ||
         (host.starts_with("127.") && host.find_first_not_of("0123456789.") == host.npos);
}

std::shared_ptr<Store> make_http_store(std::string_view uri, const StoreOptions& options) {
  check(options);
  check_http_uri(uri);
  const auto refuse = [](std::string_view field, std::string_view why) {
    throw Error(Status::inval, formatted("StoreOptions.{}: {}", field, why), "options");
  };
  constexpr std::string_view kOnlyS3 = "only for s3, not for http(s)";
  if (options.endpoint) refuse("endpoint", kOnlyS3);
  if (options.region) refuse("region", kOnlyS3);
  if (options.credentials) refuse("credentials", kOnlyS3);
  if (options.profile) refuse("profile", kOnlyS3);
  if (options.access_key_id) refuse("access_key_id", kOnlyS3);
  if (options.request_payer) refuse("request_payer", kOnlyS3);
  const bool is_secret = options.bearer_token || !options.headers.empty();
  const std::string_view rest = uri.substr(uri.find("://") + 3);
  if (is_secret && scheme_of_uri(uri) == "http" && !is_loopback(rest.substr(0, rest.find('/'))))
    refuse(options.bearer_token ? "bearer_token" : "headers", "goes over http only to this machine: use https");
  return make_http_store(uri, settings_of(options));
}

}  // namespace damacy::http
