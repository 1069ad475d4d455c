// Where the credentials of S3 come from: options, environment, web identity, profile, container, instance metadata; the
// first that has something. Of Google Cloud Storage: options and environment. Keeps them until they expire. Knows
// services that give credentials; not what they sign.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "damacy/store/http/http_settings.h"
#include "damacy/store/s3/aws_files.h"
#include "damacy/store/store_options.h"

namespace damacy::s3 {

class CredentialSource {
 public:
  using Time = std::chrono::steady_clock::time_point;

  virtual ~CredentialSource() = default;
  // What signs the next request; empty: it is not signed. From five minutes before they expire on, one caller asks for
  // new ones; from one minute before on, all wait for them. Where there were some, requests are never unsigned. Throws
  // Error(io, "credentials"), and Error(io, "deadline") where none came until `end`.
  virtual std::optional<Credentials> current(Time end) = 0;
  // current() needs no answer of a callable.
  virtual bool is_ready() = 0;
  // What current() gave last. Asks nothing.
  virtual std::optional<Credentials> last() = 0;
  // Requests are unsigned because the options or the environment say so.
  virtual bool is_anonymous() const noexcept = 0;
  // After a service refused `used`: whether there are other ones now.
  virtual bool renew(const Credentials& used) = 0;
  // Names the source, and for unsigned requests what was tried: `environment`, `none in: options, environment, …`.
  virtual std::string described() = 0;
};

// `settings`: certificates and proxy of requests to services, except those on this machine. Asks nothing yet.
[[nodiscard]] std::unique_ptr<CredentialSource> make_credential_source(const StoreOptions& options,
                                                                       const http::HttpSettings& settings,
                                                                       const Profile& profile);

// Of Google Cloud Storage: options, then the HMAC key in GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY.
[[nodiscard]] std::unique_ptr<CredentialSource> make_google_credential_source(const StoreOptions& options);

// The string member `name` of a JSON object, at any depth; empty: there is none. For answers of a few flat members.
[[nodiscard]] std::optional<std::string> json_string(std::string_view json, std::string_view name);

}  // namespace damacy::s3
