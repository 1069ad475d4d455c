#include "damacy/store/reference_urls.h"

#include <algorithm>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/store/store.h"

namespace damacy {
namespace {

[[noreturn]] void refuse(std::string_view uri, std::string message) {
  throw Error(Status::inval, std::move(message), "uri").at_uri(without_secrets(uri));
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_of_files(std::string_view uri) {
  const std::string scheme = scheme_of_uri(uri);
  return scheme.empty() || scheme == "file";
}

bool is_of_http(std::string_view scheme) {
  return scheme == "http" || scheme == "https";
}

// Where the path begins: at the '/' behind the name of a host or bucket, or where a url of HTTP(S) without a path has
// its query or fragment.
std::size_t path_at(std::string_view uri) {
  const std::string_view ends = is_of_http(scheme_of_uri(uri)) ? "/?#" : "/";
  return std::min(uri.find_first_of(ends, uri.find("://") + 3), uri.size());
}

// With its scheme, and the host of HTTP(S), in lower case; an empty path of HTTP(S) is '/'.
std::string normal(std::string_view uri) {
  std::string out(uri);
  const std::string scheme = scheme_of_uri(uri);
  const std::size_t end = is_of_http(scheme) ? path_at(uri) : scheme.size();
  std::transform(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(end), out.begin(), lower);
  if (is_of_http(scheme) && (end == out.size() || out[end] != '/')) out.insert(end, 1, '/');
  return out;
}

std::string closed(std::string uri) {
  if (!uri.ends_with('/')) uri += '/';
  return uri;
}

// A part "." or ".." leads elsewhere than the text says. Servers and libcurl may take %2e for a dot.
bool has_dots(std::string_view path, bool is_encoded) {
  path = path.substr(0, is_encoded ? path.find_first_of("?#") : path.npos);
  while (!path.empty()) {
    const std::string_view part = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(part.size() + 1, path.size()));
    std::size_t dots = 0, at = 0;
    while (at < part.size()) {
      const bool is_escaped =
          is_encoded && part.size() - at >= 3 && part.substr(at, 2) == "%2" && lower(part[at + 2]) == 'e';
      if (part[at] != '.' && !is_escaped) break;
      at += is_escaped ? 3 : 1;
      ++dots;
    }
    if (at == part.size() && (dots == 1 || dots == 2)) return true;
  }
  return false;
}

}  // namespace

ReferenceUrls::ReferenceUrls(std::string_view document_uri, std::span<const std::string> allow)
    : document_(without_secrets(document_uri)), is_local_(is_of_files(document_uri)) {
  check_uri_text(document_uri);
  if (is_local_) {
    folder_ = absolute_path(path_of_uri(document_uri));
  } else {
    folder_ = normal(document_);
    prefixes_.push_back(closed(folder_.substr(0, path_at(folder_))));
  }
  folder_.resize(folder_.rfind('/') + 1);
  for (const std::string& prefix : allow) {
    check_uri_text(prefix);
    if (!is_of_files(prefix))
      prefixes_.push_back(closed(normal(prefix)));
    else if (!is_local_)
      refuse(document_,
             formatted("allow has the path {}, but references of another machine never lead to files here", prefix));
  }
}

bool ReferenceUrls::is_allowed(std::string_view url) const {
  const std::size_t end = is_of_http(scheme_of_uri(url)) ? url.find_first_of("?#") : url.npos;
  const std::string whole = closed(std::string(url.substr(0, end)));
  return std::ranges::any_of(prefixes_, [&](const std::string& prefix) { return whole.starts_with(prefix); });
}

std::string ReferenceUrls::resolve(std::string_view url) const {
  const std::string scheme = scheme_of_uri(url);
  if (scheme.empty() || scheme == "file") {
    const bool is_path = scheme == "file" || url.starts_with('/');
    if (is_path && !is_local_)
      refuse(document_, formatted("the document names the file {}: references of another machine never lead to files "
                                  "here",
                                  url));
    const std::string path = is_path ? path_of_uri(url) : formatted("{}{}", folder_, url);
    if (has_dots(path, /*is_encoded=*/!is_local_ && is_of_http(scheme_of_uri(path))))
      refuse(document_, formatted("the document names {}, which has a part '.' or '..'", url));
    return path;
  }
  const std::string whole = normal(url);
  if (has_dots(std::string_view(whole).substr(path_at(whole)), is_of_http(scheme)))
    refuse(document_, formatted("the document names {}, which has a part '.' or '..'", without_secrets(url)));
  if (!is_allowed(whole)) {
    const std::string shown = without_secrets(url);
    refuse(document_, formatted("the document names {}, which is elsewhere: if you trust it, pass allow=[\"{}\"]",
                                shown, closed(shown.substr(0, path_at(shown)))));
  }
  return whole;
}

}  // namespace damacy
