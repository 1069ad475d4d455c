#include "damacy/cache/disk/record_name.h"

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy {
namespace {

constexpr char kSeparator = '\0';  // in no uri and no key

}  // namespace

std::string record_name(std::string_view store_uri, std::string_view key) {
  return formatted("{}{}{}", without_secrets(store_uri), kSeparator, key);
}

RecordName parse_record_name(std::string_view name) noexcept {
  const std::size_t at = name.find(kSeparator);
  if (at == std::string_view::npos) return {name, {}};
  return {name.substr(0, at), name.substr(at + 1)};
}

bool is_below(const RecordName& name, std::string_view prefix) {
  while (prefix.ends_with('/')) prefix.remove_suffix(1);
  const std::string uri = formatted("{}/{}", name.store, name.key);
  return prefix.empty() || (uri.starts_with(prefix) && (uri.size() == prefix.size() || uri[prefix.size()] == '/'));
}

}  // namespace damacy
