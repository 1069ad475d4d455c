// The parts of an array document, v2 or v3, that a reader needs: grids, names, byte layout, codecs. Pure: text in,
// ArrayMetadata out. Knows documents of both versions; reads no files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "damacy/codec/chain.h"
#include "damacy/core/dims.h"
#include "damacy/core/dtype.h"

namespace damacy {

struct KeyEncoding {
  bool prefix_c = true;  // v3 `default`: "c/1/2"; false: `v2`, "1.2"
  char separator = '/';
  friend bool operator==(const KeyEncoding&, const KeyEncoding&) = default;
};

struct ShardIndexLayout {
  bool at_end = true;
  bool big_endian = false;
  std::uint32_t checksums = 0;  // how many crc32c follow the entries, 4 bytes each
  friend bool operator==(const ShardIndexLayout&, const ShardIndexLayout&) = default;
};

// One sharding codec: a shard holds an index and what the next level, or the chunk's codecs, encode.
struct ShardLevel {
  Dims shape;  // of a shard of this level, in the array's axes
  ShardIndexLayout index;
  Dims index_order;   // the index is in C order over these array axes; identity unless there are transposes
  CodecChain codecs;  // behind the sharding codec: they encode the shard as a whole, bytes->bytes
};

struct ArrayMetadata {
  int zarr_format = 3;
  Dims shape;
  Dtype dtype = Dtype::u8;
  std::array<std::byte, 16> fill{};  // size_of(dtype) bytes, in the machine's byte order
  KeyEncoding keys;

  Dims chunk_shape;                // inner chunks, in the array's axes
  Dims shard_shape;                // stored objects; equal to chunk_shape when unsharded
  std::vector<ShardLevel> shards;  // shards in shards, outermost first; empty: unsharded
  // Axis order of the elements in a chunk, outermost first. Identity unless there are transposes or order F.
  Dims storage_order;
  bool swap_bytes = false;               // stored in the other byte order than this machine's
  CodecChain codecs;                     // of one (inner) chunk, bytes->bytes only
  std::vector<std::string> codec_names;  // every codec as metadata name it, outermost first, for people

  // v3: attributes by which the elements are packed, "scale_factor 0.0017 and add_offset 273"; for people.
  std::string packed_by;

  // v2 with no dimension_separator key and rank >= 2: a missing chunk may be nested.
  bool separator_was_absent = false;

  std::int64_t chunk_elements() const noexcept { return *product(chunk_shape.span()); }  // checked when parsed
  std::uint64_t chunk_bytes() const noexcept { return static_cast<std::uint64_t>(chunk_elements()) * size_of(dtype); }
  // Elements of one shard of a level, in bytes.
  std::uint64_t shard_bytes(std::size_t level) const noexcept {
    return static_cast<std::uint64_t>(*product(shards[level].shape.span())) * size_of(dtype);
  }
  // The decoded size of the largest unit that is decoded as a whole: a chunk, or a shard that is followed by codecs.
  std::uint64_t largest_decoded_bytes() const noexcept;
};

// All throw Error with pointer and reason; the caller adds uri, store and key.
ArrayMetadata parse_v3_array(std::string_view document);
ArrayMetadata parse_v2_array(std::string_view document);

// What opening needs of a group.
struct GroupMetadata {
  bool is_array = false;  // a v3 document with node_type "array"
  bool has_multiscales = false;
  std::vector<std::string> level_paths;  // multiscales[0].datasets[*].path, checked
  std::size_t multiscales_count = 0;
  std::vector<std::optional<std::string>> axes;        // names of multiscales[0].axes
  std::vector<std::optional<std::string>> axis_types;  // the same length: "space", "channel", "time", …
  bool names_images_inside = false;                    // plate, well or bioformats2raw.layout
  std::vector<std::string> consolidated_arrays;        // paths of arrays in consolidated metadata
  std::vector<std::string> consolidated_members;       // arrays and groups directly below the group, in the same
  bool consolidated_malformed = false;
};
GroupMetadata parse_v3_group(std::string_view document);
// `attributes`: .zattrs or empty; `consolidated`: .zmetadata or empty.
GroupMetadata parse_v2_group(std::string_view document, std::string_view attributes, std::string_view consolidated);

}  // namespace damacy
