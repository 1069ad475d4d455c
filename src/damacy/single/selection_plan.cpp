#include "damacy/single/selection_plan.h"

#include <algorithm>
#include <utility>

#include "damacy/cache/wide_hash.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/zarr/shard_index.h"

namespace damacy {

std::shared_ptr<const Array> stored_array(const std::string& uri, std::string_view document, int zarr_format) {
  WideHash hash;
  hash.add(document);
  return stored_array(uri, zarr_format == 3 ? parse_v3_array(document) : parse_v2_array(document),
                      Stamp{hash.value()[0], hash.value()[1], document.size(), zarr_format});
}

std::shared_ptr<const Array> stored_array(const std::string& uri, ArrayMetadata metadata, const Stamp& document) {
  metadata.shape = metadata.shard_shape;
  return std::make_shared<const Array>(uri, nullptr, "", "", document, std::move(metadata), std::vector<std::string>{});
}

std::uint64_t index_bytes(const Array& array) {
  const auto& shards = array.metadata().shards;
  const bool is_plain = shards.size() == 1 && shards[0].codecs.codecs().empty();
  return is_plain ? ShardIndex::encoded_bytes(array.entries_of(0), shards[0].index) : 0;
}

SelectionPlan::SelectionPlan(std::shared_ptr<const Array> array, Output output, std::span<const std::byte> fill,
                             std::vector<std::int64_t> drop_axes)
    : drop_axes_(std::move(drop_axes)) {
  const std::size_t element = size_of(array->metadata().dtype);
  if (fill.size() != element) throw Error(Status::inval, "a fill element of the wrong size", "arguments");
  std::int64_t low = 0;
  std::int64_t high = static_cast<std::int64_t>(element);
  for (std::size_t i = 0; i < output.shape.size(); ++i) {
    if (output.shape[i] < 1) continue;
    const std::int64_t reach = (output.shape[i] - 1) * output.strides[i];
    (reach < 0 ? low : high) += reach;
  }
  layout_ = {std::move(output.shape), std::move(output.strides), -low};
  auto* const first = reinterpret_cast<std::byte*>(output.address) + low;  // NOLINT(performance-no-int-to-ptr)
  request_.out = {first, static_cast<std::size_t>(high - low)};
  request_.swap_out = output.swap;
  std::ranges::copy(fill, request_.fill.begin());
  request_.object = std::move(array);
}

bool SelectionPlan::add(const std::string& key, std::span<const IndexEntry> from, std::span<const IndexEntry> to) {
  const Dims& shape = request_.object->metadata().shard_shape;
  firsts_.push_back(static_cast<std::uint32_t>(request_.items.size()));
  if (auto runs = runs_of(from, to, shape, layout_, drop_axes_)) {
    add_item(key, std::move(*runs));
    return true;
  }
  auto points = drop_axes_.empty() ? runs_of_points(from, to, shape, layout_) : std::nullopt;
  if (!points) return false;
  for (auto& runs : *points) add_item(key, std::move(runs));
  return true;
}

void SelectionPlan::add_item(const std::string& key, std::vector<AxisRuns> runs) {
  by_key_[key].push_back(static_cast<std::uint32_t>(request_.items.size()));
  request_.items.push_back({key, std::move(runs)});
}

std::string SelectionPlan::of_items(std::string_view by_selection) const {
  std::string found;
  for (const std::uint32_t first : firsts_) found.push_back(by_selection[first]);
  return found;
}

std::vector<MergedRead> SelectionPlan::ranges(const std::string& key, std::span<const std::byte> index,
                                              std::uint64_t gap, std::uint64_t cap) const {
  const Array& array = *request_.object;
  ShardIndex::Rules rules{
      .object_bytes = kUnknownSize, .max_chunk_bytes = array.max_encoded_chunk_bytes(), .exact_chunk_bytes = {}};
  if (array.metadata().codecs.fixed_size())
    rules.exact_chunk_bytes = array.metadata().codecs.fixed_encoded_size(array.metadata().chunk_bytes());
  if (index.size() != index_bytes(array))
    throw Error(Status::io, formatted("short read: {} of {} bytes of the index", index.size(), index_bytes(array)),
                "short-read")
        .at_key(key);
  const ShardIndex parsed = ShardIndex::parse(index, array.entries_of(0), array.metadata().shards[0].index, rules);
  std::vector<Piece> pieces;
  for (const std::uint32_t number : by_key_.at(key)) {
    const SplitSelection parts(request_.items[number].axes, array.metadata().chunk_shape);
    for (std::int64_t part = 0; part < parts.size(); ++part)
      if (const auto range = parsed.find(array.index_in_shard(parts.chunk_of(part))))
        pieces.push_back({range->begin, range->size()});
  }
  std::ranges::sort(pieces, {}, &Piece::offset);
  return coalesce(pieces, gap, cap);
}

}  // namespace damacy
