// Parses the codec lists of documents into an axis order, a byte order, at most one sharding and the bytes->bytes
// codecs. Knows names, kinds, options and legal orders; not the shape of an array.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "damacy/codec/chain.h"
#include "damacy/core/dims.h"
#include "damacy/core/dtype.h"
#include "damacy/zarr/detail/extension.h"

namespace damacy {

struct V3Chain {
  Dims order;  // all transposes as one: axis i of what is stored is axis order[i] of what comes in
  std::optional<Extension> sharding;
  bool big_endian = false;            // of `bytes`; without meaning for one-byte elements
  std::vector<CodecSpec> codecs;      // bytes->bytes; with sharding they encode the shard as a whole
  std::vector<std::string> names;     // of every codec in the list
  std::size_t names_to_sharding = 0;  // how many of them come before what is inside the shard
};

struct ChainPlace {
  std::size_t rank;
  std::size_t scalar_bytes;  // what `endian` swaps
};

[[nodiscard]] V3Chain parse_v3_codecs(const json::Value& list, const ChainPlace& place);

// `endian` of codec `bytes`; false where elements have one byte and it does not matter.
[[nodiscard]] bool parse_big_endian(const Extension& bytes, std::size_t scalar_bytes);

// The order of a `transpose` of `rank` axes.
[[nodiscard]] Dims parse_transpose(const Extension& transpose, std::size_t rank);

// A v2 `compressor` or an element of `filters`; empty: there is nothing to undo.
[[nodiscard]] std::optional<CodecSpec> parse_v2_codec(const json::Value& codec);

// Every codec costs a pass over each chunk. Throws Error at `list`.
void check_codec_count(std::size_t count, const json::Value& list);

// Checks that filters have whole elements and that their output is within the limit. Throws Error at `at`.
void check_stages(const CodecChain& codecs, std::uint64_t decoded, const json::Value& at);

}  // namespace damacy
