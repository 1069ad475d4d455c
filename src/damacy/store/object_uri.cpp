#include "damacy/store/object_uri.h"

#include <utility>

#include "damacy/core/error.h"
#include "damacy/store/http/http_store.h"
#include "damacy/store/mounts.h"
#include "damacy/store/s3/s3_store.h"

namespace damacy {
namespace {

[[noreturn]] void refuse(std::string_view uri, std::string_view why) {
  throw Error(Status::inval, std::string(why), "uri").at_uri(without_secrets(uri));
}

// Up to the last '/' of the path, and what follows.
std::pair<std::string_view, std::string_view> split(std::string_view uri) {
  const std::size_t begin = uri.find("://") + 3;
  const std::size_t slash = uri.rfind('/');
  if (slash == uri.npos || slash < begin || slash + 1 == uri.size())
    refuse(uri, "the uri names no object: SCHEME://NAME/PATH");
  return {uri.substr(0, slash), uri.substr(slash + 1)};
}

}  // namespace

ObjectPlace object_of_uri(std::string_view uri, const std::optional<StoreOptions>& options, const StoreUse& use) {
  const std::string scheme = scheme_of_uri(uri);
  if (scheme == "http" || scheme == "https") {
    const std::string shown = without_secrets(uri);
    const StoreOptions all = options ? *options : mounted_options_of_uri(shown).value_or(StoreOptions());
    return {http::make_url_store(uri, all, use), std::string(split(shown).second)};
  }
  const auto [parent, key] = split(uri);
  if (options && !s3::is_bucket_uri(uri)) refuse(uri, "options are for http(s)://, s3:// and gs://");
  if (options) return {s3::S3Mount(parent, *options).store_of(parent, use), std::string(key)};
  return {mounted_store_of_uri(parent, use), std::string(key)};
}

}  // namespace damacy
