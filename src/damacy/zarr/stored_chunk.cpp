#include "damacy/zarr/stored_chunk.h"

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy {

StoredChunk find_stored_chunk(const Array& array, const Shard& shard, std::size_t index_in_shard) {
  if (shard.index) {
    const auto range = shard.index->find(index_in_shard);
    return range ? StoredChunk{range->begin, range->size()} : StoredChunk{.missing = true};
  }
  const std::uint64_t stored = shard.object->stamp().size;
  const CodecChain& codecs = array.metadata().codecs;
  if (codecs.fixed_size()) {
    const std::uint64_t exact = codecs.fixed_encoded_size(array.metadata().chunk_bytes());
    if (stored < exact)
      throw Error(Status::io, formatted("short read: {} of {} bytes", stored, exact), "short-read").at_bytes(0, exact);
    if (stored > exact)
      throw Error(Status::decode, formatted("the object has {} bytes, a chunk has {}", stored, exact), "size")
          .at_bytes(0, stored);
  } else if (stored > array.max_encoded_chunk_bytes()) {
    throw Error(
        Status::inval,
        formatted("an encoded chunk of {} bytes exceeds the limit of {}", stored, array.max_encoded_chunk_bytes()),
        "limit")
        .at_bytes(0, stored);
  }
  return {0, stored};
}

}  // namespace damacy
