// Documents that are right except for what a test changes, and what an error was. For tests only.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy::for_tests {

// Name and JSON of a member; "" takes a member away.
using Member = std::pair<std::string, std::string>;

inline std::string object_of(std::vector<Member> members, std::initializer_list<Member> changes) {
  for (const Member& change : changes) {
    const auto at =
        std::find_if(members.begin(), members.end(), [&](const Member& m) { return m.first == change.first; });
    if (at == members.end())
      members.push_back(change);
    else
      at->second = change.second;
  }
  std::string json;
  for (const auto& [name, value] : members)
    if (!value.empty()) json += formatted("{}\"{}\":{}", json.empty() ? "" : ",", name, value);
  return formatted("{{{}}}", json);
}

// int16 of shape (10, 7) in chunks of (4, 3), zstd.
inline std::string v3_document(std::initializer_list<Member> changes) {
  return object_of({{"zarr_format", "3"},
                    {"node_type", R"("array")"},
                    {"shape", "[10,7]"},
                    {"data_type", R"("int16")"},
                    {"chunk_grid", R"({"name":"regular","configuration":{"chunk_shape":[4,3]}})"},
                    {"chunk_key_encoding", R"("default")"},
                    {"fill_value", "0"},
                    {"codecs", R"([{"name":"bytes","configuration":{"endian":"little"}},"zstd"])"}},
                   changes);
}

inline std::string v2_document(std::initializer_list<Member> changes) {
  return object_of({{"zarr_format", "2"},
                    {"shape", "[10,7]"},
                    {"chunks", "[4,3]"},
                    {"dtype", R"("<i2")"},
                    {"compressor", R"({"id":"zstd","level":1})"},
                    {"filters", "null"},
                    {"fill_value", "0"},
                    {"order", R"("C")"}},
                   changes);
}

// `codecs` of one sharding codec, the changes made to its configuration.
inline std::string sharded(std::initializer_list<Member> changes) {
  return formatted(R"([{{"name":"sharding_indexed","configuration":{}}}])",
                   object_of({{"chunk_shape", "[2,3]"},
                              {"codecs", R"([{"name":"bytes","configuration":{"endian":"little"}},"zstd"])"},
                              {"index_codecs", R"([{"name":"bytes","configuration":{"endian":"little"}},"crc32c"])"}},
                             changes));
}

// What an error says to programs.
struct Refusal {
  Status status = Status::ok;
  ErrorKind kind = ErrorKind::plain;
  std::string reason;
  std::string pointer;
  friend bool operator==(const Refusal&, const Refusal&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Refusal& refusal) {
    return out << "status " << static_cast<int>(refusal.status)
               << (refusal.kind == ErrorKind::unsupported_format ? " unsupported" : "") << ", reason '"
               << refusal.reason << "', pointer '" << refusal.pointer << "'";
  }
};

inline Refusal unsupported(std::string reason, std::string pointer) {
  return {Status::decode, ErrorKind::unsupported_format, std::move(reason), std::move(pointer)};
}
inline Refusal wrong(std::string reason, std::string pointer) {
  return {Status::decode, ErrorKind::plain, std::move(reason), std::move(pointer)};
}
inline Refusal over_limit(std::string pointer) {
  return {Status::inval, ErrorKind::plain, "limit", std::move(pointer)};
}
inline Refusal accepted() {
  return {};
}

template <class Act>
Refusal refusal_of(Act act) {
  try {
    act();
  } catch (const Error& e) {
    return {e.status(), e.kind(), e.where().reason, e.where().pointer};
  }
  return accepted();
}

}  // namespace damacy::for_tests
