#include "damacy/zarr/detail/document.h"

#include <algorithm>

#include "damacy/core/formatted.h"

namespace damacy {

using json::Kind;
using json::Value;

void check_document_size(std::string_view document, std::uint64_t limit) {
  if (document.size() > limit)
    throw Error(Status::inval, formatted("document of {} bytes, limit {}", document.size(), limit), "limit");
}

void check_format(const Value& root, std::int64_t version) {
  const Value format = root.at("zarr_format");
  if (format.integer(0) != version)
    throw format.error(Status::decode, formatted("zarr_format {}, expected {}", format.text(), version), "metadata");
}

void check_node_type(const Value& root, std::string_view wanted) {
  const Value type = root.at("node_type");
  if (type.expect(Kind::string).text() != wanted)
    throw type.error(Status::decode, formatted("node_type '{}', expected '{}'", type.text(), wanted), "metadata");
}

void check_attributes(const Value& attributes) {
  // Does not check members, not even for duplicate names.
  if (!attributes.is(Kind::null) && !attributes.is(Kind::object)) attributes.expect(Kind::object);
}

void check_unknown_member(const Value& member) {
  const auto must = member.is(Kind::object) ? member.find("must_understand") : std::nullopt;
  const bool may_ignore = must && must->is(Kind::boolean) && !must->truth();
  if (!may_ignore) throw member.unsupported(formatted("member '{}' is not supported", member.name()), "unknown-member");
}

bool is_path_below(std::string_view path) {
  for (std::size_t begin = 0; begin <= path.size();) {
    const auto end = std::min(path.find('/', begin), path.size());
    const auto part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == ".." || part.find('\0') != part.npos) return false;
    begin = end + 1;
  }
  return true;
}

char parse_separator(const Value& separator) {
  const auto characters = separator.expect(Kind::string).text();
  if (characters != "." && characters != "/")
    throw separator.unsupported(formatted("separator '{}' is not supported", characters), "chunk-key-encoding");
  return characters[0];
}

}  // namespace damacy
