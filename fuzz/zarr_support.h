// What fuzz targets of the zarr layer share: an oracle that stops the run, the checks every error must pass, and
// documents put together from parts, so that most of them get past the JSON.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/zarr/array.h"
#include "damacy/zarr/metadata.h"

namespace damacy::fuzz {

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

// Metadata errors have a class that goes with their reason, and their pointer is one.
inline void check_error(const Error& e) {
  static const std::set<std::string, std::less<>> kUnsupported = {
      "unknown-member", "storage-transformers", "chunk-grid",  "chunk-key-encoding", "data-type",
      "codec",          "codec-option",         "index-codecs"};
  static const std::set<std::string, std::less<>> kWrong = {"json",       "duplicate-key", "metadata", "codec-chain",
                                                            "fill-value", "shard-index",   "cf"};
  const std::string& reason = e.where().reason;
  if (e.kind() == ErrorKind::unsupported_format)
    require(e.status() == Status::decode && kUnsupported.contains(reason), "an unsupported reason");
  else if (e.status() == Status::decode)
    require(kWrong.contains(reason), "a reason of decode errors");
  else
    require(e.status() == Status::inval && reason == "limit", "a limit");
  const std::string& pointer = e.where().pointer;
  require(pointer.empty() || pointer[0] == '/', "a pointer");
}

inline void check_order(const Dims& order, std::size_t rank) {
  require(order.size() == rank, "one entry an axis");
  std::set<std::int64_t> axes(order.begin(), order.end());
  require(axes.size() == rank && (rank == 0 || (*axes.begin() == 0 && *axes.rbegin() + 1 == std::int64_t(rank))),
          "a permutation");
}

// Below 2^63, in more bits than the library uses; factors are.
inline bool fits_product(const Dims& factors, std::int64_t first) {
  if (std::find(factors.begin(), factors.end(), 0) != factors.end()) return true;
  __int128 product = first;
  for (const auto factor : factors) {
    product *= factor;
    if (product >> 63 != 0) return false;
  }
  return true;
}

// Each level divides the one around it, and none has too many entries.
inline void check_shards(const ArrayMetadata& array) {
  require(!array.shards.empty() || array.shard_shape == array.chunk_shape, "an unsharded object is one chunk");
  require(array.shards.empty() || array.shards[0].shape == array.shard_shape, "the outermost shard is the object");
  for (std::size_t level = 0; level < array.shards.size(); ++level) {
    const ShardLevel& shard = array.shards[level];
    const Dims& child = level + 1 < array.shards.size() ? array.shards[level + 1].shape : array.chunk_shape;
    require(shard.shape.size() == array.shape.size(), "ranks of shards agree");
    check_order(shard.index_order, array.shape.size());
    __int128 entries = 1;
    for (std::size_t axis = 0; axis < array.shape.size(); ++axis) {
      require(child[axis] >= 1 && shard.shape[axis] % child[axis] == 0, "chunks divide shards");
      entries *= shard.shape[axis] / child[axis];
      require(entries <= 1 << 20, "entries of an index");
    }
    require(shard.codecs.codecs().empty() || array.shard_bytes(level) <= 0x7fffffff, "bytes of a whole shard");
  }
  require(array.largest_decoded_bytes() <= 0x7fffffff, "bytes of what is decoded as a whole");
}

// What holds of every array that was accepted.
inline void check_array(const ArrayMetadata& array) {
  constexpr __int128 kEnd = static_cast<__int128>(1) << 63;
  const std::size_t rank = array.shape.size();
  require(rank <= 32, "rank");
  require(array.chunk_shape.size() == rank && array.shard_shape.size() == rank, "ranks agree");
  check_order(array.storage_order, rank);
  const auto size = static_cast<std::int64_t>(size_of(array.dtype));
  require(fits_product(array.shape, size) && fits_product(array.shard_shape, size), "bytes below 2^63");
  require(fits_product(array.chunk_shape, size) && array.chunk_bytes() <= 0x7fffffff, "bytes of a chunk");
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const __int128 shard = array.shard_shape[axis], extent = array.shape[axis];
    require(extent >= 0 && array.chunk_shape[axis] >= 1, "extents");
    require((extent + shard - 1) / shard * shard < kEnd, "the grid's end");
  }
  check_shards(array);
  for (std::size_t i = size_of(array.dtype); i < array.fill.size(); ++i)
    require(array.fill[i] == std::byte{0}, "nothing behind the fill value");
  require(array.keys.separator == '/' || array.keys.separator == '.', "a separator");
}

// The last chunk of a grid has a place in its shard and a box that starts inside the array.
inline void check_last_chunk(const ArrayMetadata& metadata) {
  const Array array("a", nullptr, "", "zarr.json", {}, metadata, {});
  Dims last = array.grid();
  for (auto& index : last) {
    if (index == 0) return;
    --index;
  }
  const Box box = array.box_of_chunk(last);
  const Dims shard = array.shard_of_chunk(last);
  for (std::size_t axis = 0; axis < array.rank(); ++axis) {
    require(box.start[axis] < metadata.shape[axis] && box.stop[axis] >= metadata.shape[axis], "the last box");
    require(shard[axis] == array.shard_grid()[axis] - 1, "the last shard");
    require(array.chunk_strides()[axis] >= 1, "strides");
  }
  for (std::size_t level = 0; level < metadata.shards.size(); ++level) {
    const std::size_t entry = array.entry_at(level, last);
    require(entry < array.entries_of(level), "a place in the index");
    const Dims first = array.chunk_of_entry(level, entry, last);
    require(array.entry_at(level, first) == entry, "an entry leads to its chunk");
    for (std::size_t axis = 0; axis < array.rank(); ++axis)
      require(first[axis] >= 0 && first[axis] <= last[axis], "an entry's first chunk");
  }
  require(!array.key_of_shard(shard).empty(), "a key");
}

// Bytes of the input as choices.
class Choices {
 public:
  explicit Choices(std::string_view bytes) : bytes_(bytes) {}
  bool empty() const { return at_ == bytes_.size(); }
  std::uint8_t byte() { return empty() ? 0 : static_cast<std::uint8_t>(bytes_[at_++]); }
  std::string pick(std::initializer_list<const char*> of) { return of.begin()[byte() % of.size()]; }
  std::string_view rest() const { return bytes_.substr(at_); }

  std::string number() {
    return pick({"0",
                 "1",
                 "2",
                 "3",
                 "4",
                 "7",
                 "64",
                 "-1",
                 "-0",
                 "1e2",
                 "2147483647",
                 "2147483648",
                 "1048576",
                 "1048577",
                 "4294967296",
                 "4611686018427387904",
                 "9223372036854775807",
                 "9223372036854775808",
                 "1.5",
                 "0.0",
                 "-9223372036854775808",
                 "18446744073709551615",
                 "65519.9",
                 "1e39",
                 "null",
                 "\"4\""});
  }
  std::string extents(std::size_t rank) {
    std::string list = "[";
    for (std::size_t i = 0; i < rank; ++i)
      list += formatted("{}{}", i > 0 ? "," : "", byte() < 224 ? formatted("{}", 1 + byte() % 12) : number());
    return list + "]";
  }
  std::string fill() {
    return byte() < 128 ? number()
                        : pick({"\"NaN\"",
                                "\"Infinity\"",
                                "\"-Infinity\"",
                                "\"0x7fc0\"",
                                "\"0x7fc00001\"",
                                "true",
                                "false",
                                "\"0x7ff8000000000001\"",
                                "\"NaT\"",
                                "[0,0]",
                                "[\"NaN\",-0.0]",
                                "-0.0",
                                "null",
                                "\"\"",
                                "{}",
                                "NaN",
                                "-Infinity",
                                "[NaN,Infinity]",
                                "\"0\"",
                                "\"-1.5e3\"",
                                "\"18446744073709551615\""});
  }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
};

// Runs an input that is a document as it is, and any other as the choices a document is put together by.
template <class Document, class Run>
void run_document(std::string_view bytes, Document document, Run run) {
  if (bytes.starts_with('{')) return run(bytes);
  Choices choices(bytes);
  run(document(choices));
}

}  // namespace damacy::fuzz
