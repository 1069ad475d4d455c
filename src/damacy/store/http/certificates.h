// Which CA certificates servers are checked against. Looks for files; reads none of them.
#pragma once

#include <functional>
#include <string>

namespace damacy::http {

struct Certificates {
  std::string file, directory;  // both empty: what libcurl uses by itself, or none
  std::string missing;          // not empty: there are none; the text says where they were looked for
  std::string shown;            // for texts
};

// `ca_file` if it is set. Else the first that exists: AWS_CA_BUNDLE if `is_aws`, CURL_CA_BUNDLE, SSL_CERT_FILE or
// SSL_CERT_DIR, libcurl's own, the usual places of Linux, and the last resort.
[[nodiscard]] Certificates find_certificates(const std::string& ca_file, bool is_aws);

// `find` names a file that is used where the system has none; empty: there is none. Called by threads that read.
void set_last_resort(std::function<std::string()> find);

}  // namespace damacy::http
