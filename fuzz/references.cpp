// Documents of references: any bytes give keys that can be looked up and listed, or an error; and no url leads to where
// the document may not.
#include <cstdlib>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "damacy/core/error.h"
#include "damacy/store/reference_urls.h"
#include "damacy/store/references.h"

using namespace damacy;

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

void check_error(const Error& e) {
  static const std::set<std::string, std::less<>> kReasons = {"json", "metadata", "duplicate-key"};
  const std::string& reason = e.where().reason;
  if (e.kind() == ErrorKind::unsupported_format)
    check(reason == "references");
  else if (e.status() == Status::decode)
    check(kReasons.contains(reason));
  else
    check(e.status() == Status::inval && (reason == "limit" || reason == "uri"));
  check(e.where().pointer.empty() || e.where().pointer[0] == '/');
}

void check_listing(const References& references, const std::string& path, int depth) {
  std::string before;
  for (const Entry& entry : references.list(path)) {
    check(!entry.name.empty() && entry.name.find('/') == entry.name.npos && entry.name > before);
    before = entry.name;
    const std::string key = path.empty() ? entry.name : path + "/" + entry.name;
    check(entry.is_directory == references.has_below(key));
    check(entry.is_directory || references.find(key));
    if (entry.is_directory && depth < 3) check_listing(references, key, depth + 1);
  }
}

void check_urls(const References& references, std::string_view document, std::string_view wanted) {
  const ReferenceUrls urls(document, {});
  for (const std::string& url : references.urls()) {
    try {
      const std::string resolved = urls.resolve(url);
      check(resolved.starts_with(wanted));
      const std::size_t end = wanted.starts_with("https") ? resolved.find_first_of("?#") : resolved.npos;
      check(resolved.substr(0, end).find("/../") == resolved.npos);
    } catch (const Error& e) {
      check(e.status() == Status::inval && e.where().reason == "uri");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  try {
    const std::string refs =
        input.starts_with('{') ? std::string(input) : "{\"version\":1,\"refs\":{\"a\":" + std::string(input) + "}}";
    const References references = References::parse(refs);
    check_listing(references, "", 0);
    check_urls(references, "s3://bucket/a/refs.json", "s3://bucket/");
    check_urls(references, "https://host:1/a/refs.json", "https://host:1/");
    check_urls(references, "/data/refs.json", "/");
  } catch (const Error& e) {
    check_error(e);
  }
  return 0;
}
