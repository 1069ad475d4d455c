#include "damacy/store/http/http_settings.h"

#include "damacy/core/formatted.h"

namespace damacy::http {
namespace {

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

}  // namespace

void apply(const StoreUse& use, HttpSettings& settings) {
  settings.counts = use.counts;
  settings.repeated_status = use.repeated_status;
  if (use.head_bytes) settings.head_bytes = *use.head_bytes;
  if (use.attempts) settings.attempts = *use.attempts;
  if (use.deadline_s) settings.deadline = milliseconds_of(*use.deadline_s);
}

HttpSettings settings_of(const StoreOptions& options, const StoreUse& use) {
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
  settings.redirects = options.redirects;
  settings.request_bytes = static_cast<std::size_t>(options.request_bytes);
  settings.hedge = options.hedge == "on";
  if (options.gap_bytes) settings.gap_bytes = static_cast<std::uint64_t>(*options.gap_bytes);
  settings.allow_unversioned = options.allow_unversioned;
  for (const auto& [name, value] : options.headers) settings.headers.push_back(formatted("{}: {}", name, value));
  if (options.bearer_token) settings.headers.push_back(formatted("Authorization: Bearer {}", *options.bearer_token));
  apply(use, settings);
  return settings;
}

}  // namespace damacy::http
