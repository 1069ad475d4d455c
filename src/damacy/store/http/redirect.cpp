#include "damacy/store/http/redirect.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include <arpa/inet.h>
#include <netinet/in.h>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "damacy/store/store.h"

namespace damacy::http {
namespace {

bool is_web(std::string_view scheme) {
  return scheme == "http" || scheme == "https";
}

Reach reach_of_v4(std::uint32_t address) noexcept {
  const auto in = [&](std::uint32_t network, int bits) { return (address ^ network) >> (32 - bits) == 0; };
  if (in(0xa9fe0000, 16)) return Reach::link;  // 169.254: metadata of clouds
  for (const auto& [network, bits] :
       {std::pair(0x00000000u, 8), std::pair(0x0a000000u, 8), std::pair(0x64400000u, 10), std::pair(0x7f000000u, 8),
        std::pair(0xac100000u, 12), std::pair(0xc0a80000u, 16)})
    if (in(network, bits)) return Reach::local_network;
  return Reach::internet;
}

Reach reach_of_v6(const in6_addr& address) noexcept {
  const auto& bytes = address.s6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    std::uint32_t v4 = 0;
    std::memcpy(&v4, bytes + 12, sizeof v4);
    return reach_of_v4(ntohl(v4));
  }
  if (bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80) return Reach::link;
  // fd00:ec2::254 is a metadata service, too: in the range of local networks.
  if ((bytes[0] & 0xfe) == 0xfc || IN6_IS_ADDR_LOOPBACK(&address) || IN6_IS_ADDR_UNSPECIFIED(&address))
    return Reach::local_network;
  return Reach::internet;
}

}  // namespace

std::string_view origin_of(std::string_view url) {
  const std::size_t host = url.find("://");
  return url.substr(0, url.find_first_of("/?#", host == url.npos ? 0 : host + 3));
}

bool is_of_this_machine(std::string_view url) {
  std::string_view host = origin_of(url);
  if (const std::size_t begin = host.find("://"); begin != host.npos) host.remove_prefix(begin + 3);
  if (const std::size_t user = host.rfind('@'); user != host.npos) host.remove_prefix(user + 1);
  if (host.starts_with('[')) return host.substr(0, host.find(']') + 1) == "[::1]";
  host = host.substr(0, host.find(':'));
  return host == "localhost" || host.ends_with(".localhost") ||
         (host.starts_with("127.") && host.find_first_not_of("0123456789.") == host.npos);
}

bool keeps_secrets(std::string_view url, std::string_view proxy) {
  return scheme_of_uri(url) == "https" || (is_of_this_machine(url) && (proxy.empty() || is_of_this_machine(proxy)));
}

std::optional<std::string> resolve_location(std::string_view url, std::string_view location) {
  location = location.substr(0, location.find('#'));
  if (location.empty() || location.size() >= Limits::uri_bytes) return std::nullopt;
  for (const char c : location)
    if (static_cast<unsigned char>(c) <= 0x20 || static_cast<unsigned char>(c) >= 0x7f || c == '\\')
      return std::nullopt;
  const std::string_view here = url.substr(0, url.find_first_of("?#"));
  std::string target;
  if (const std::string scheme = scheme_of_uri(location); !scheme.empty()) {
    if (!is_web(scheme)) return std::nullopt;
    target = formatted("{}{}", scheme, location.substr(location.find("://")));
  } else if (location.starts_with("//")) {
    target = formatted("{}{}", url.substr(0, url.find("://") + 1), location);
  } else if (location.starts_with('/')) {
    target = formatted("{}{}", origin_of(url), location);
  } else if (location.starts_with('?')) {
    target = formatted("{}{}", here, location);
  } else if (location.find(':') < location.find('/')) {  // another scheme, such as file:
    return std::nullopt;
  } else {
    const std::string_view origin = origin_of(url);
    const std::size_t slash = here.rfind('/');
    target = slash < origin.size() ? formatted("{}/{}", origin, location)
                                   : formatted("{}{}", here.substr(0, slash + 1), location);
  }
  const std::string_view host = origin_of(target).substr(target.find("://") + 3);
  if (host.empty() || host.front() == ':' || host.find('@') != host.npos) return std::nullopt;
  return target;
}

std::string shown_location(std::string_view location) {
  const std::string_view path = location.substr(0, location.find_first_of("?#"));
  const std::size_t user = path.starts_with("//") ? path.substr(0, path.find('/', 2)).rfind('@') : path.npos;
  return one_line(without_secrets(user == path.npos ? path : path.substr(user + 1)), 200);
}

Reach reach_of(const sockaddr& address) noexcept {
  if (address.sa_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address, sizeof v4);
    return reach_of_v4(ntohl(v4.sin_addr.s_addr));
  }
  if (address.sa_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &address, sizeof v6);
    return reach_of_v6(v6.sin6_addr);
  }
  return Reach::unknown;
}

Reach reach_of_text(std::string_view address) noexcept {
  std::array<char, INET6_ADDRSTRLEN + 1> text{};
  if (address.size() >= text.size()) return Reach::unknown;
  std::copy(address.begin(), address.end(), text.begin());
  in_addr v4{};
  if (::inet_pton(AF_INET, text.data(), &v4) == 1) return reach_of_v4(ntohl(v4.s_addr));
  in6_addr v6{};
  if (::inet_pton(AF_INET6, text.data(), &v6) == 1) return reach_of_v6(v6);
  return Reach::unknown;
}

}  // namespace damacy::http
