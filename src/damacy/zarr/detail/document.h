// Checks shared by array and group documents of both versions: the version, the size, unknown members.
#pragma once

#include <cstdint>
#include <string_view>

#include "damacy/zarr/json.h"

namespace damacy {

// Error(inval, "limit").
void check_document_size(std::string_view document, std::uint64_t limit);
// Error(decode, "metadata") unless `zarr_format` is `version`.
void check_format(const json::Value& root, std::int64_t version);
void check_node_type(const json::Value& root, std::string_view wanted);
void check_attributes(const json::Value& attributes);
// v3: an unknown member is refused unless it has must_understand = false.
void check_unknown_member(const json::Value& member);
// Whether a path leads to something below a group: no empty part, ".", ".." or NUL.
[[nodiscard]] bool is_path_below(std::string_view path);
// Of chunk keys: '.' or '/'.
[[nodiscard]] char parse_separator(const json::Value& separator);

}  // namespace damacy
