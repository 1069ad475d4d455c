#include "damacy/pipeline/admission.h"

#include "damacy/batch/memory_plan.h"
#include "damacy/copy/block_copy.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "damacy/pipeline/packed_arrays.h"

namespace damacy {
namespace {

void check_rank(const Sample& sample, const std::optional<Dims>& extents) {
  const std::size_t rank = sample.aabb.size();
  if (rank > Limits::rank)
    throw Error(Status::rank, formatted("aabb has {} axes, the limit is {}", rank, Limits::rank), "rank");
  if (extents && rank != extents->size())
    throw Error(Status::rank, formatted("aabb has {} axes, the first sample had {}", rank, extents->size()), "rank");
}

Box check_box(const Sample& sample, const std::optional<Dims>& extents) {
  Box box;
  for (std::size_t axis = 0; axis < sample.aabb.size(); ++axis) {
    const auto [start, stop] = sample.aabb[axis];
    if (start < 0 || start >= stop)
      throw Error(Status::inval,
                  formatted("aabb axis {}: expected 0 <= start < stop, got {} and {}{}", axis, start, stop,
                            start < 0 ? "; negative numbers do not count from the end" : ""),
                  "aabb");
    if (extents && stop - start != (*extents)[axis])
      throw Error(
          Status::inval,
          formatted("aabb axis {}: extent {} differs from the first sample's {}", axis, stop - start, (*extents)[axis]),
          "extents");
    box.start.push_back(start);
    box.stop.push_back(stop);
  }
  return box;
}

void check_type(const ArrayMetadata& metadata, const Config& config) {
  if (!has_conversion(metadata.dtype, config.dtype))
    throw Error(Status::dtype, formatted("no conversion from {} to {}", name_of(metadata.dtype), name_of(config.dtype)),
                "dtype");
  const auto bytes = static_cast<std::int64_t>(size_of(metadata.dtype));
  if (bytes > element_bytes_allowed(config))
    throw Error(Status::dtype,
                formatted("elements of {} bytes exceed max_bytes_per_element {}", bytes, element_bytes_allowed(config)),
                "dtype");
}

void check_place(const Array& array, const Box& box) {
  if (box.rank() != array.rank())
    throw Error(Status::rank,
                formatted("aabb has {} axes, the array has {}: its shape is {}", box.rank(), array.rank(),
                          tuple_text(array.metadata().shape.span())),
                "rank");
  for (std::size_t axis = 0; axis < box.rank(); ++axis)
    if (box.stop[axis] > array.metadata().shape[axis])
      throw Error(Status::inval,
                  formatted("aabb axis {}: stop {} is beyond the array's size {}", axis, box.stop[axis],
                            array.metadata().shape[axis]),
                  "aabb");
  const std::int64_t chunks = count_chunks(array, box);
  if (chunks > static_cast<std::int64_t>(Limits::chunks_per_sample))
    throw Error(Status::inval,
                formatted("the sample touches {} chunks, the limit is {}", chunks, Limits::chunks_per_sample), "limit");
}

void check_chunk(const ArrayMetadata& metadata, const Config& config) {
  const auto bytes = static_cast<std::int64_t>(metadata.chunk_bytes());
  const auto largest = static_cast<std::int64_t>(metadata.largest_decoded_bytes());  // of metadata memory, if no chunk
  if (largest > chunk_bytes_allowed(config))
    throw Error(Status::inval,
                formatted("a decoded chunk of {} bytes exceeds {}{}", largest,
                          config.max_chunk_uncompressed_bytes > 0 ? "max_chunk_uncompressed_bytes " : "the limit of ",
                          chunk_bytes_allowed(config)),
                "limit");
  if (bytes > chunk_bytes_buffers_hold(config))
    throw Error(
        Status::oom,
        formatted(
            "a decoded chunk of {} bytes does not fit: host_buffer_bytes {} and device_buffer_bytes {} must both be at least {}",
            bytes, config.host_buffer_bytes, config.device_buffer_bytes, buffer_bytes_for(bytes)),
        "buffers");
}

}  // namespace

PlannedSample admit(const Sample& sample, const Config& config, const std::optional<Dims>& extents,
                    const std::function<std::shared_ptr<const Array>()>& open) {
  try {
    static_cast<void>(path_of_uri(sample.uri));
    check_rank(sample, extents);
    const Box box = check_box(sample, extents);
    auto array = open();
    check_type(array->metadata(), config);
    check_place(*array, box);
    check_chunk(array->metadata(), config);
    warn_if_packed(*array);
    return {std::move(array), box, sample.origin};
  } catch (const Error& error) {  // may be shared with other samples of the same array
    throw Error(error).at_uri(sample.uri);
  }
}

}  // namespace damacy
