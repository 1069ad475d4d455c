#include "damacy/zarr/array.h"

#include <algorithm>
#include <charconv>

#include "damacy/cache/wide_hash.h"
#include "damacy/core/checked.h"
#include "damacy/core/limits.h"
#include "damacy/zarr/metadata.h"
#include "damacy/zarr/shard_index.h"

namespace damacy {
namespace {

// The number of chunks along each axis.
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

// `whole` divided by `part`, which divides it exactly on each axis.
Dims quotient(const Dims& whole, const Dims& part) {
  Dims counts;
  for (std::size_t axis = 0; axis < whole.size(); ++axis) counts.push_back(whole[axis] / part[axis]);
  return counts;
}

const Dims& innermost_shard(const ArrayMetadata& array) {
  return array.shards.empty() ? array.chunk_shape : array.shards.back().shape;
}

const Dims& child_shape(const ArrayMetadata& array, std::size_t level) {
  return level + 1 < array.shards.size() ? array.shards[level + 1].shape : array.chunk_shape;
}

void append_index(std::string& key, std::int64_t index) {
  char digits[24];
  key.append(digits, std::to_chars(digits, digits + sizeof digits, index).ptr);
}

}  // namespace

Array::Array(std::string uri, std::shared_ptr<Store> store, std::string path, std::string document_key,
             Stamp document_stamp, ArrayMetadata metadata, std::vector<std::string> levels, std::string_view document)
    : uri_(std::move(uri)),
      store_(std::move(store)),
      path_(std::move(path)),
      document_key_(std::move(document_key)),
      document_stamp_(document_stamp),
      metadata_(std::make_shared<const ArrayMetadata>(std::move(metadata))),
      levels_(std::move(levels)),
      grid_(grid_over(metadata_->shape, metadata_->chunk_shape)),
      shard_grid_(grid_over(metadata_->shape, innermost_shard(*metadata_))),
      chunks_in_shard_(quotient(innermost_shard(*metadata_), metadata_->chunk_shape)),
      shards_in_object_(quotient(metadata_->shard_shape, innermost_shard(*metadata_))),
      chunk_strides_(strides_of(*metadata_)),
      chunks_per_shard_(static_cast<std::size_t>(*product(chunks_in_shard_.span()))) {
  for (std::size_t level = 0; level < metadata_->shards.size(); ++level) {
    const Dims& child = child_shape(*metadata_, level);
    Dims children = quotient(metadata_->shards[level].shape, child);
    const auto entries = static_cast<std::size_t>(*product(children.span()));
    levels_of_.push_back({children, quotient(child, metadata_->chunk_shape), entries});
  }
  WideHash hash;
  for (const std::string_view part : {std::string_view(uri_), std::string_view(path_)}) hash.add(part);
  if (store_) hash.add(store_->cache_identity());
  place_hash_ = hash.value()[0];
  hash.add(document_key_);
  for (const std::uint64_t word : words_of(document_stamp_)) hash.add(word);
  hash.add(document);
  id_ = hash.value();
}

const Dims& Array::shape() const noexcept {
  return metadata_->shape;
}

Dtype Array::dtype() const noexcept {
  return metadata_->dtype;
}

std::string Array::key_of_shard(const Dims& shard) const {
  std::string key = path_;
  if (!key.empty()) key += '/';
  const KeyEncoding& keys = metadata_->keys;
  if (keys.prefix_c) key += 'c';
  if (shard.empty() && !keys.prefix_c) key += '0';
  for (std::size_t axis = 0; axis < shard.size(); ++axis) {
    if (axis > 0 || keys.prefix_c) key += keys.separator;
    append_index(key, shard[axis] / shards_in_object_[axis]);
  }
  return key;
}

Dims Array::shard_of_chunk(const Dims& chunk) const noexcept {
  Dims shard;
  for (std::size_t axis = 0; axis < chunk.size(); ++axis) shard.push_back(chunk[axis] / chunks_in_shard_[axis]);
  return shard;
}

Dims Array::first_chunk_of(const Dims& shard) const noexcept {
  Dims chunk;
  for (std::size_t axis = 0; axis < shard.size(); ++axis) chunk.push_back(shard[axis] * chunks_in_shard_[axis]);
  return chunk;
}

std::size_t Array::entry_at(std::size_t level, const Dims& chunk) const noexcept {
  const Level& of = levels_of_[level];
  std::int64_t entry = 0;
  for (const auto axis : metadata_->shards[level].index_order) {
    const auto at = static_cast<std::size_t>(axis);
    entry = entry * of.children[at] + chunk[at] / of.chunks_in_child[at] % of.children[at];
  }
  return static_cast<std::size_t>(entry);
}

std::size_t Array::index_in_shard(const Dims& chunk) const noexcept {
  return levels_of_.empty() ? 0 : entry_at(levels_of_.size() - 1, chunk);
}

Dims Array::chunk_of_entry(std::size_t level, std::size_t entry, const Dims& inside) const noexcept {
  const Level& of = levels_of_[level];
  const Dims& order = metadata_->shards[level].index_order;
  Dims chunk = inside;
  auto rest = static_cast<std::int64_t>(entry);
  for (std::size_t i = order.size(); i-- > 0;) {
    const auto at = static_cast<std::size_t>(order[i]);
    const std::int64_t in_shard = of.children[at] * of.chunks_in_child[at];
    chunk[at] = inside[at] / in_shard * in_shard + rest % of.children[at] * of.chunks_in_child[at];
    rest /= of.children[at];
  }
  return chunk;
}

Box Array::box_of_chunk(const Dims& chunk) const noexcept {
  Box box;
  for (std::size_t axis = 0; axis < chunk.size(); ++axis) {
    box.start.push_back(chunk[axis] * metadata_->chunk_shape[axis]);
    box.stop.push_back(box.start[axis] + metadata_->chunk_shape[axis]);
  }
  return box;
}

std::uint64_t Array::max_encoded_chunk_bytes() const noexcept {
  const std::uint64_t decoded = metadata_->chunk_bytes();
  return Limits::encoded_chunk_bytes(metadata_->codecs.largest_stage(decoded).value_or(decoded));
}

// The limit for the elements plus the size of the index, because chunks may be smaller than their index entries.
std::uint64_t Array::max_shard_bytes(std::size_t level) const noexcept {
  constexpr std::uint64_t kEnough = std::uint64_t{1} << 62;  // no object is larger; the sum stays in 64 bits
  return Limits::encoded_chunk_bytes(std::min(metadata_->shard_bytes(level), kEnough)) +
         ShardIndex::encoded_bytes(levels_of_[level].entries, metadata_->shards[level].index);
}

std::uint64_t Array::max_entry_bytes(std::size_t level) const noexcept {
  if (level + 1 == levels_of_.size()) return max_encoded_chunk_bytes();
  const std::uint64_t shard = max_shard_bytes(level + 1);
  return metadata_->shards[level + 1].codecs.codecs().empty() ? shard : Limits::encoded_chunk_bytes(shard);
}

std::uint64_t ArrayMetadata::largest_decoded_bytes() const noexcept {
  std::uint64_t largest = codecs.largest_stage(chunk_bytes()).value_or(chunk_bytes());
  for (std::size_t level = 0; level < shards.size(); ++level)
    if (!shards[level].codecs.codecs().empty()) largest = std::max(largest, shard_bytes(level));
  return largest;
}

std::optional<Dims> Array::coordinates_in_key(std::string_view key) const {
  Dims found(rank(), 0);
  for (std::size_t axis = found.size(); axis-- > 0;) {
    const std::size_t begin = key.find_last_not_of("0123456789") + 1;  // npos + 1 is 0
    const auto digits = key.substr(begin);
    if (std::from_chars(digits.data(), digits.data() + digits.size(), found[axis]).ec != std::errc())
      return std::nullopt;
    key.remove_suffix(digits.size());
    if (axis == 0) break;
    if (!key.ends_with(metadata_->keys.separator)) return std::nullopt;
    key.remove_suffix(1);
  }
  return found;
}

}  // namespace damacy
