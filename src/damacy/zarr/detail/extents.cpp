#include "damacy/zarr/detail/extents.h"

#include <algorithm>

#include "damacy/core/checked.h"
#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"

namespace damacy {
namespace {

using json::Kind;
using json::Value;

Error over_limit(const Value& at, std::string message) {
  return at.error(Status::inval, std::move(message), "limit");
}

// Zero as soon as one factor is, whatever the others.
std::optional<std::int64_t> bytes_of(const Dims& shape, Dtype dtype) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  const auto elements = product(shape.span());
  return elements ? checked_mul(*elements, static_cast<std::int64_t>(size_of(dtype))) : std::nullopt;
}

void check_rank(const Value& list) {
  if (list.expect(Kind::array).size() > Limits::rank)
    throw over_limit(list, formatted("rank {}, limit {}", list.size(), Limits::rank));
}

}  // namespace

Dims parse_extents(const Value& list, std::int64_t min) {
  check_rank(list);
  Dims extents;
  for (const Value entry : list) extents.push_back(entry.integer(min));
  return extents;
}

Dims parse_extents_of_rank(const Value& list, std::int64_t min, std::size_t rank, std::string_view reason) {
  check_rank(list);
  if (list.size() != rank)
    throw list.error(Status::decode, formatted("expected one entry for each of {} axes, found {}", rank, list.size()),
                     std::string(reason));
  return parse_extents(list, min);
}

void check_array_extents(const ArrayMetadata& array, const Value& shape, const Value& stored_shape) {
  if (!bytes_of(array.shape, array.dtype))
    throw over_limit(shape,
                     formatted("bytes of an array of shape {} reach the limit 2^63", tuple_text(array.shape.span())));
  if (!bytes_of(array.shard_shape, array.dtype))
    throw over_limit(stored_shape, formatted("bytes of a chunk of shape {} reach the limit 2^63",
                                             tuple_text(array.shard_shape.span())));
  for (std::size_t axis = 0; axis < array.shape.size(); ++axis)
    if (!checked_mul(ceil_div(array.shape[axis], array.shard_shape[axis]), array.shard_shape[axis]))
      throw over_limit(stored_shape, formatted("the grid along axis {} reaches the limit 2^63", axis));
}

void check_decoded_bytes(const Dims& shape, Dtype dtype, const Value& chunk_shape) {
  const auto bytes = bytes_of(shape, dtype);
  if (!bytes || *bytes > static_cast<std::int64_t>(Limits::max_element_chunk_bytes))
    throw over_limit(chunk_shape, formatted("a chunk of shape {} of {} byte elements, limit {} bytes",
                                            tuple_text(shape.span()), size_of(dtype), Limits::max_element_chunk_bytes));
}

void check_index_entries(const Dims& shard, const Dims& inner, const Value& chunk_shape) {
  Dims counts;
  for (std::size_t axis = 0; axis < inner.size(); ++axis) counts.push_back(shard[axis] / inner[axis]);
  const auto entries = product(counts.span());
  if (!entries || *entries > static_cast<std::int64_t>(Limits::shard_index_entries))
    throw over_limit(chunk_shape, formatted("chunks in a shard: {}, limit {}", tuple_text(counts.span()),
                                            Limits::shard_index_entries));
}

}  // namespace damacy
