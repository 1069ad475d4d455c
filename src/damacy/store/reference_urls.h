// Which urls a document of references may name: a document is data that others wrote, and must not reach other servers
// with the caller's credentials, nor files. Knows uris; opens nothing.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace damacy {

class ReferenceUrls {
 public:
  // Urls below the origin and bucket of the document are allowed, and those below `allow`. A local document may name
  // all files; another may name none. Throws Error(inval, "uri").
  ReferenceUrls(std::string_view document_uri, std::span<const std::string> allow);

  // The url, or the path, in full: a relative one is below the document's folder. Throws Error(inval, "uri") if the
  // document may not name it.
  [[nodiscard]] std::string resolve(std::string_view url) const;

 private:
  [[nodiscard]] bool is_allowed(std::string_view url) const;

  const std::string document_;
  const bool is_local_;
  std::string folder_;                 // of the document, with its last '/'
  std::vector<std::string> prefixes_;  // each ends with '/'
};

}  // namespace damacy
