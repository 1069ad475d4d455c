// What the records of a disk tier are called: the uri of a store and the key of an object in it, without secrets. Knows
// names; not what the records hold.
#pragma once

#include <string>
#include <string_view>

namespace damacy {

[[nodiscard]] std::string record_name(std::string_view store_uri, std::string_view key);

// Both are views of the name. A name that was cut may have no key.
struct RecordName {
  std::string_view store, key;
};
[[nodiscard]] RecordName parse_record_name(std::string_view name) noexcept;

// Whether the object's uri is `prefix` or below it; a prefix ends at a '/'. All names are below an empty prefix.
[[nodiscard]] bool is_below(const RecordName& name, std::string_view prefix);

}  // namespace damacy
