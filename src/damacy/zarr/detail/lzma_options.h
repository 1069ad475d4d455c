// The options of codec `lzma` that a decoder needs: container and filters, by the numbers of Python's module lzma.
// Knows documents; what filters do is the codec's (codec/lzma.h).
#pragma once

#include <optional>

#include "damacy/codec/lzma.h"
#include "damacy/zarr/json.h"

namespace damacy {

// `options`: a v2 codec or a v3 configuration; empty: defaults. Throws Error at the option that is not supported.
[[nodiscard]] LzmaFormat parse_lzma(const std::optional<json::Value>& options);

// An integer in [min, 2^32).
[[nodiscard]] std::uint32_t parse_u32(const json::Value& number, std::uint32_t min);

}  // namespace damacy
