#include "damacy/zarr/detail/document.h"

#include "damacy/core/text.h"

namespace damacy {

using json::Kind;
using json::Value;

void check_document_size(std::string_view document, std::uint64_t limit) {
  if (document.size() > limit)
    throw Error(Status::inval, text("document of ", document.size(), " bytes, limit ", limit), "limit");
}

void check_format(const Value& root, std::int64_t version) {
  const Value format = root.at("zarr_format");
  if (format.integer(0) != version)
    throw format.error(Status::decode, text("zarr_format ", format.text(), ", expected ", version), "metadata");
}

void check_node_type(const Value& root, std::string_view wanted) {
  const Value type = root.at("node_type");
  if (type.expect(Kind::string).text() != wanted)
    throw type.error(Status::decode, text("node_type '", type.text(), "', expected '", wanted, "'"), "metadata");
}

void check_attributes(const Value& attributes) {
  // Members are nobody's business here, not even names that occur twice.
  if (!attributes.is(Kind::null) && !attributes.is(Kind::object)) attributes.expect(Kind::object);
}

void check_unknown_member(const Value& member) {
  const auto must = member.is(Kind::object) ? member.find("must_understand") : std::nullopt;
  const bool may_ignore = must && must->is(Kind::boolean) && !must->truth();
  if (!may_ignore) throw member.unsupported(text("member '", member.name(), "' is not supported"), "unknown-member");
}

char parse_separator(const Value& separator) {
  const auto characters = separator.expect(Kind::string).text();
  if (characters != "." && characters != "/")
    throw separator.unsupported(text("separator '", characters, "' is not supported"), "chunk-key-encoding");
  return characters[0];
}

}  // namespace damacy
