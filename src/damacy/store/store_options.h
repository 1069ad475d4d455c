// How a remote store is reached: endpoint, credentials, times. Unset fields come from the environment, then the
// default. Knows values and what is wrong with them; opens no connection. Part of the public interface by
// damacy/remote.h.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace damacy {

// What proves to a service who asks. Either both parts of a key or a bearer token.
struct Credentials {
  std::string access_key_id;
  std::string secret_access_key;
  std::string session_token;  // empty: none
  std::string bearer_token;
  std::optional<std::int64_t> expires_unix_s;  // empty: never
};

struct StoreOptions {
  std::optional<std::string> endpoint;  // http(s)://HOST[:PORT][/PATH] of an S3-compatible service; also of gs
  std::optional<std::string> region;
  std::string addressing = "auto";  // path, virtual; auto: path with an endpoint or a dot in the bucket's name
  std::optional<bool> anonymous;    // true: never sign; false: credentials are required
  // Called by one thread at a time, its own, before the first request and before the credentials expire. May throw.
  // Where it does not return, requests fail at their deadlines, and later ones call it again.
  std::function<Credentials()> credentials;
  std::optional<std::string> profile;  // of the files of AWS
  std::optional<std::string> access_key_id, secret_access_key, session_token, bearer_token;
  bool request_payer = false;
  std::vector<std::pair<std::string, std::string>> headers;  // only for http(s); values are secrets
  std::vector<int> absent_status{404};  // of 403, 404, 410: mean an absent object; 403 of S3: AccessDenied
  std::optional<std::string> proxy;     // empty: by the environment; "": none
  std::optional<std::string> ca_file;
  double connect_timeout_s = 10, stall_timeout_s = 20, deadline_s = 60;
  double first_byte_timeout_s = 20;
  int attempts = 6;
  int max_requests = 256;  // under way to one origin, of this process
  int redirects = 0;       // of http(s): so many are followed; headers and tokens stay with the first origin
  std::int64_t request_bytes = 8 << 20;  // larger reads are divided into equal requests
  // Reads of one shard that are as near to each other become one of up to 1 MiB, of which at most a quarter is in gaps.
  // Empty: 4 KiB, whatever the part.
  std::optional<std::int64_t> gap_bytes;
  // A request whose first byte is late is sent once more, at most one in fifty: on, off; auto: on for s3 and gs without
  // an endpoint.
  std::string hedge = "auto";
  double revalidate_s = 60;        // what is known of an object is believed for so long
  bool immutable = false;          // believed forever
  bool allow_unversioned = false;  // take answers with neither a strong ETag nor Last-Modified
};

// Throws Error(inval, "options"): `StoreOptions.FIELD: …`.
void check(const StoreOptions& options);

// The fields that are not their defaults, with '***' for secrets and the last four characters of a key's id.
[[nodiscard]] std::string masked_text(const StoreOptions& options);

}  // namespace damacy
