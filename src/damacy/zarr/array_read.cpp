// Reads the elements of a box directly from the store, for types that batches do not support, and for tools.
#include <vector>

#include "damacy/copy/block_copy.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/zarr/array.h"
#include "damacy/zarr/box_copy.h"
#include "damacy/zarr/catalog.h"
#include "damacy/zarr/decode_error.h"
#include "damacy/zarr/metadata.h"
#include "damacy/zarr/stored_chunk.h"

namespace damacy {
namespace {

void check_box(const ArrayMetadata& array, const Box& box, std::size_t out_bytes) {
  bool inside = box.rank() == array.shape.size();
  for (std::size_t axis = 0; inside && axis < box.rank(); ++axis)
    inside = box.start[axis] >= 0 && box.start[axis] <= box.stop[axis] && box.stop[axis] <= array.shape[axis];
  if (!inside)
    throw Error(Status::inval,
                formatted("box from {} to {} is not inside an array of shape {}", tuple_text(box.start.span()),
                          tuple_text(box.stop.span()), tuple_text(array.shape.span())),
                "aabb");
  const auto elements = product(box.extents().span());
  const std::uint64_t bytes = elements ? static_cast<std::uint64_t>(*elements) * size_of(array.dtype) : 0;
  if (!elements || bytes != out_bytes)
    throw Error(Status::inval, formatted("the box has {} bytes and the output {}", bytes, out_bytes), "aabb");
}

// One call of read().
class BoxReader {
 public:
  BoxReader(const Array& array, const Box& box, std::span<std::byte> out)
      : array_(array),
        box_(box),
        out_(out),
        strides_(row_major_strides(box.extents())),
        decoded_(array.metadata().chunk_bytes()) {
    for (auto& stride : strides_) stride *= static_cast<std::int64_t>(size_of(array.metadata().dtype));
  }

  void read_chunk(const Dims& chunk) {
    const auto shard = catalog_.shard(array_, array_.shard_of_chunk(chunk));
    if (!shard) catalog_.check_missing_chunk(array_);
    try {
      const StoredChunk stored =
          shard ? find_stored_chunk(array_, *shard, array_.index_in_shard(chunk)) : StoredChunk{.missing = true};
      if (stored.missing) return fill(chunk);
      decode(*shard, stored);
      place(chunk);
    } catch (Error& e) {
      e.at_chunk({chunk.begin(), chunk.end()}).in_shard(!array_.metadata().shards.empty());
      throw e.at_key(array_.key_of_shard(array_.shard_of_chunk(chunk)));
    }
  }

 private:
  void decode(const Shard& shard, const StoredChunk& stored) {
    encoded_.resize(stored.bytes);
    shard.object->read_exact(stored.offset, encoded_);
    const ByteRange all{0, decoded_.size()};
    const DecodeResult result = array_.metadata().codecs.decode(encoded_, decoded_, {&all, 1}, context_);
    if (!result.ok()) throw decode_error(result).at_bytes(stored.offset, stored.offset + stored.bytes);
  }

  CopyOp op(bool is_stored) const {
    const Dtype type = type_of_bits(array_.metadata().dtype);
    return {type, type, is_stored && array_.metadata().swap_bytes};
  }

  void place(const Dims& chunk) {
    const Box whole = array_.box_of_chunk(chunk);
    run_block_copy(copy_of_box(array_, whole, intersect(box_, whole), {box_, strides_}, op(/*is_stored=*/true)),
                   decoded_, out_);
  }

  void fill(const Dims& chunk) {
    const ArrayMetadata& metadata = array_.metadata();
    const Box part = intersect(box_, array_.box_of_chunk(chunk));
    run_block_copy(fill_of_box(part, {box_, strides_}, op(/*is_stored=*/false)),
                   std::span(metadata.fill).first(size_of(metadata.dtype)), out_);
  }

  const Array& array_;
  const Box& box_;
  std::span<std::byte> out_;
  Dims strides_;  // of it, bytes
  Catalog catalog_{Catalog::Limits{}};
  DecodeContext context_;
  std::vector<std::byte> encoded_, decoded_;
};

}  // namespace

void Array::read(const Box& box, std::span<std::byte> out) const {
  try {
    check_box(*metadata_, box, out.size());
    if (out.empty()) return;
    Box cells;
    for (std::size_t i = 0; i < rank(); ++i) {
      cells.start.push_back(box.start[i] / metadata_->chunk_shape[i]);
      cells.stop.push_back(ceil_div(box.stop[i], metadata_->chunk_shape[i]));
    }
    BoxReader reader(*this, box, out);
    Dims chunk = cells.start;
    for (bool more = true; more;) {
      reader.read_chunk(chunk);
      more = false;
      for (std::size_t i = rank(); i-- > 0 && !more;) {
        more = ++chunk[i] < cells.stop[i];
        if (!more) chunk[i] = cells.start[i];
      }
    }
  } catch (Error& e) {
    throw e.at_uri(uri_).at_store(store_->name());
  }
}

}  // namespace damacy
