#include "damacy/zarr/array.h"

#include <charconv>

#include "damacy/core/limits.h"
#include "damacy/core/text.h"

namespace damacy {
namespace {

// Chunks that cover each axis.
Dims grid_over(const Dims& shape, const Dims& chunk) {
  Dims grid;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) grid.push_back(ceil_div(shape[axis], chunk[axis]));
  return grid;
}

// Byte strides of a chunk whose axes lie in `order`, outermost first.
Dims strides_of(const ArrayMetadata& array) {
  Dims strides(array.shape.size(), 0);
  auto stride = static_cast<std::int64_t>(size_of(array.dtype));
  for (std::size_t i = array.storage_order.size(); i-- > 0;) {
    const auto axis = static_cast<std::size_t>(array.storage_order[i]);
    strides[axis] = stride;
    stride *= array.chunk_shape[axis];
  }
  return strides;
}

void append_index(std::string& key, std::int64_t index) {
  char digits[24];
  key.append(digits, std::to_chars(digits, digits + sizeof digits, index).ptr);
}

}  // namespace

Array::Array(std::string uri, std::shared_ptr<Store> store, std::string path, std::string document_key,
             Stamp document_stamp, ArrayMetadata metadata, std::vector<std::string> levels)
    : uri_(std::move(uri)),
      store_(std::move(store)),
      path_(std::move(path)),
      document_key_(std::move(document_key)),
      document_stamp_(document_stamp),
      metadata_(std::move(metadata)),
      levels_(std::move(levels)),
      grid_(grid_over(metadata_.shape, metadata_.chunk_shape)),
      shard_grid_(grid_over(metadata_.shape, metadata_.shard_shape)),
      chunks_in_shard_(grid_over(metadata_.shard_shape, metadata_.chunk_shape)),
      chunk_strides_(strides_of(metadata_)),
      chunks_per_shard_(static_cast<std::size_t>(*product(chunks_in_shard_.span()))) {}

std::string Array::key_of_shard(const Dims& shard) const {
  std::string key = path_;
  if (!key.empty()) key += '/';
  const KeyEncoding& keys = metadata_.keys;
  if (keys.prefix_c) key += 'c';
  if (shard.empty() && !keys.prefix_c) key += '0';
  for (std::size_t axis = 0; axis < shard.size(); ++axis) {
    if (axis > 0 || keys.prefix_c) key += keys.separator;
    append_index(key, shard[axis]);
  }
  return key;
}

Dims Array::shard_of_chunk(const Dims& chunk) const noexcept {
  Dims shard;
  for (std::size_t axis = 0; axis < chunk.size(); ++axis) shard.push_back(chunk[axis] / chunks_in_shard_[axis]);
  return shard;
}

std::size_t Array::index_in_shard(const Dims& chunk) const noexcept {
  std::int64_t index = 0;
  for (const auto axis : metadata_.index_order) {
    const auto at = static_cast<std::size_t>(axis);
    index = index * chunks_in_shard_[at] + chunk[at] % chunks_in_shard_[at];
  }
  return static_cast<std::size_t>(index);
}

Box Array::box_of_chunk(const Dims& chunk) const noexcept {
  Box box;
  for (std::size_t axis = 0; axis < chunk.size(); ++axis) {
    box.start.push_back(chunk[axis] * metadata_.chunk_shape[axis]);
    box.stop.push_back(box.start[axis] + metadata_.chunk_shape[axis]);
  }
  return box;
}

std::uint64_t Array::max_encoded_chunk_bytes() const noexcept {
  return Limits::encoded_chunk_bytes(metadata_.chunk_bytes());
}

}  // namespace damacy
