#include "damacy/store/http/certificates.h"

#include <cstdlib>
#include <utility>

#include <sys/stat.h>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"
#include "damacy/store/http/curl.h"

namespace damacy::http {
namespace {

constexpr const char* kUsualPlaces[] = {
    "/etc/ssl/certs/ca-certificates.crt",                 // Debian, Ubuntu, Arch
    "/etc/pki/tls/certs/ca-bundle.crt",                   // Fedora, older Red Hat
    "/etc/ssl/ca-bundle.pem",                             // SUSE
    "/etc/pki/tls/cacert.pem",                            // OpenELEC
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // Red Hat
    "/etc/ssl/cert.pem",                                  // Alpine, BSD
};

bool is_there(const char* path, bool is_directory) {
  struct stat found;
  if (path == nullptr || *path == '\0' || ::stat(path, &found) != 0) return false;
  return is_directory ? S_ISDIR(found.st_mode) : S_ISREG(found.st_mode);
}

struct LastResort {
  Mutex mutex;
  std::function<std::string()> find DAMACY_GUARDED_BY(mutex);
};
LastResort& last_resort() {
  static auto* const made = new LastResort;  // never destroyed: threads may read until the process ends
  return *made;
}

}  // namespace

void set_last_resort(std::function<std::string()> find) {
  const Lock lock(last_resort().mutex);
  last_resort().find = std::move(find);
}

Certificates find_certificates(const std::string& ca_file, bool is_aws) {
  const auto file = [](std::string path) {
    return Certificates{path, {}, {}, formatted("CA file {}", one_line(path, 300))};
  };
  if (!ca_file.empty()) return file(ca_file);
  std::string tried;
  const auto missed = [&](std::string_view what) { tried += formatted("{}{}", tried.empty() ? "" : ", ", what); };
  for (const char* const name : {"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"}) {
    if (!is_aws && name == std::string_view("AWS_CA_BUNDLE")) continue;
    const char* const path = std::getenv(name);
    const bool is_directory = name == std::string_view("SSL_CERT_DIR");
    if (is_there(path, is_directory)) {
      if (!is_directory) return file(path);
      return {{}, path, {}, formatted("CA directory {}", one_line(path, 300))};
    }
    missed(path == nullptr || *path == '\0' ? std::string(name) : formatted("{} ({})", name, one_line(path, 200)));
  }
  const CurlFacts& facts = curl_facts();
  if (is_there(facts.ca_file, false)) return {{}, {}, {}, formatted("CA file {}", facts.ca_file)};
  if (is_there(facts.ca_directory, true)) return {{}, {}, {}, formatted("CA directory {}", facts.ca_directory)};
  missed(facts.ca_file == nullptr ? std::string("libcurl's own (none)")
                                  : formatted("libcurl's own ({})", facts.ca_file));
  for (const char* const place : kUsualPlaces) {
    if (is_there(place, false)) return file(place);
    missed(place);
  }
  std::function<std::string()> find;
  {
    const Lock lock(last_resort().mutex);
    find = last_resort().find;
  }
  if (const std::string path = find ? find() : std::string(); is_there(path.c_str(), false)) return file(path);
  missed("certifi");
  return {{}, {}, tried, "no CA certificates"};
}

}  // namespace damacy::http
