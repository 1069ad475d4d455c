// Reads a shard's index from its object; a shard that codecs encoded as a whole is decoded first. Knows the position of
// an index and the bounds of its entries; caches nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "damacy/store/store.h"
#include "damacy/zarr/array.h"
#include "damacy/zarr/detail/ledger.h"
#include "damacy/zarr/metadata.h"
#include "damacy/zarr/shard_index.h"

namespace damacy {

// Where a shard's bytes are: a part of an object.
struct ShardPlace {
  Object& object;
  ByteRange bytes;
};

struct ReadIndex {
  ShardIndex index;                 // its ranges are of the object that was given, or of `decoded`
  std::shared_ptr<Object> decoded;  // the shard without the codecs behind it; null: there are none
  Charge charge;
};

// The index of a shard of `level`; `chunk` is any chunk in it. Calls `reserve` for memory, which throws if there is
// none. Throws Error with the byte range in the object, and with the chunk if an entry is wrong.
[[nodiscard]] ReadIndex read_shard(const Array& array, std::size_t level, const ShardPlace& place, const Dims& chunk,
                                   const std::function<Charge(std::uint64_t bytes)>& reserve);

}  // namespace damacy
