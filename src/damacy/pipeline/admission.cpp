#include "damacy/pipeline/admission.h"

#include "damacy/batch/memory_plan.h"
#include "damacy/copy/block_copy.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "damacy/pipeline/named_parts.h"
#include "damacy/pipeline/packed_arrays.h"

namespace damacy {
namespace {

void check_rank(const Sample::Ranges& aabb, const Dims* extents) {
  const std::size_t rank = aabb.size();
  if (rank > Limits::rank)
    throw Error(Status::rank, formatted("aabb has {} axes, the limit is {}", rank, Limits::rank), "rank");
  if (extents != nullptr && rank != extents->size())
    throw Error(Status::rank, formatted("aabb has {} axes, the first sample had {}", rank, extents->size()), "rank");
}

Box check_box(const Sample::Ranges& aabb, const Dims* extents) {
  Box box;
  for (std::size_t axis = 0; axis < aabb.size(); ++axis) {
    const auto [start, stop] = aabb[axis];
    if (start < 0 || start >= stop)
      throw Error(Status::inval,
                  formatted("aabb axis {}: expected 0 <= start < stop, got {} and {}{}", axis, start, stop,
                            start < 0 ? "; negative numbers do not count from the end" : ""),
                  "aabb");
    if (extents != nullptr && stop - start != (*extents)[axis])
      throw Error(
          Status::inval,
          formatted("aabb axis {}: extent {} differs from the first sample's {}", axis, stop - start, (*extents)[axis]),
          "extents");
    box.start.push_back(start);
    box.stop.push_back(stop);
  }
  return box;
}

void check_type(const ArrayMetadata& metadata, const Config& config, Dtype to) {
  if (!has_conversion(metadata.dtype, to))
    throw Error(Status::dtype, formatted("no conversion from {} to {}", name_of(metadata.dtype), name_of(to)), "dtype");
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

using Open = std::function<std::shared_ptr<const Array>(const std::string& uri)>;
using LayoutPtr = std::shared_ptr<const BatchLayout>;

// As far as they are known; one empty name stands for one array without a name.
std::vector<std::string> names_of(const Config& config, const BatchLayout* layout) {
  std::vector<std::string> names;
  if (layout != nullptr)
    for (const BatchLayout::Rows& rows : layout->arrays()) names.push_back(rows.name);
  else
    for (const NamedArraySpec& array : config.arrays) names.push_back(array.name);
  return names;
}

Admitted admit_unnamed(const Sample& sample, const Config& config, const LayoutPtr& layout, const Open& open) {
  const bool named = layout ? layout->is_named() : !config.arrays.empty() && !config.arrays.front().name.empty();
  if (named) refuse_names(std::vector<std::string>{""}, names_of(config, layout.get()));
  Admitted admitted{{{}, sample.origin}, layout};
  admitted.sample.parts.push_back(admit_part(sample.uri, sample.aabb, config, dtype_of_rows(config, ""),
                                             layout ? &layout->parts().front().extents : nullptr, open));
  if (!layout) {
    const BatchLayout::First first{"", admitted.sample.parts.front().box.extents(), 1, false};
    admitted.layout = std::make_shared<const BatchLayout>(config, std::span(&first, 1));
  }
  return admitted;
}

void check_stack(const NamedParts& array, const BatchLayout::Rows& rows) {
  if (array.is_stacked() != rows.stacked || array.parts.size() != rows.parts)
    throw Error(
        Status::inval,
        formatted("{} of {} parts differs from the first sample's {} of {}", array.is_stacked() ? "a stack" : "a box",
                  array.parts.size(), rows.stacked ? "stack" : "box", rows.parts),
        "extents");
}

// In a stack of the first sample all parts have the extents of part 0.
void check_same_extents(const NamedParts& array, std::size_t part, const Dims& extents, const Dims& first) {
  if (extents != first)
    throw Error(Status::inval,
                formatted("arrays['{}']: part {} has extents {}, part 0 {}", array.name, part,
                          tuple_text(extents.span()), tuple_text(first.span())),
                "extents");
  if (array.is_stacked() && extents.size() + 1 > Limits::rank)
    throw Error(Status::rank,
                formatted("a stack of boxes of {} axes exceeds the limit of {} axes", extents.size(), Limits::rank),
                "rank");
}

// Appends the parts of one array.
void admit_array(const NamedParts& array, const Config& config, const BatchLayout::Rows* rows,
                 const BatchLayout* layout, const Open& open, std::vector<PlannedPart>& parts) {
  if (rows != nullptr) check_stack(array, *rows);
  const Dims* const extents = rows != nullptr ? &layout->parts()[rows->first_part].extents : nullptr;
  const std::size_t first = parts.size();
  for (std::size_t i = 0; i < array.parts.size(); ++i) {
    const Sample::Part& part = *array.parts[i];
    try {
      parts.push_back(admit_part(part.uri, part.aabb, config, dtype_of_rows(config, array.name), extents, open));
      check_same_extents(array, i, parts.back().box.extents(), parts[first].box.extents());
    } catch (const Error& error) {
      throw Error(error).at_uri(part.uri);
    }
  }
}

Admitted admit_named(const Sample& sample, const Config& config, const LayoutPtr& layout, const Open& open) {
  const std::vector<NamedParts> arrays = parts_by_name(sample, names_of(config, layout.get()));
  Admitted admitted{{{}, sample.origin}, layout};
  std::vector<BatchLayout::First> first;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    std::vector<PlannedPart>& parts = admitted.sample.parts;
    try {
      admit_array(arrays[i], config, layout ? &layout->arrays()[i] : nullptr, layout.get(), open, parts);
    } catch (const Error& error) {
      throw Error(error).at_array(arrays[i].name);
    }
    first.push_back({arrays[i].name, parts.back().box.extents(), arrays[i].parts.size(), arrays[i].is_stacked()});
  }
  if (!layout) admitted.layout = std::make_shared<const BatchLayout>(config, first);
  return admitted;
}

}  // namespace

PlannedPart admit_part(const std::string& uri, const Sample::Ranges& aabb, const Config& config, Dtype to,
                       const Dims* extents,
                       const std::function<std::shared_ptr<const Array>(const std::string& uri)>& open) {
  try {
    static_cast<void>(path_of_uri(uri));
    check_rank(aabb, extents);
    const Box box = check_box(aabb, extents);
    auto array = open(uri);
    check_type(array->metadata(), config, to);
    check_place(*array, box);
    check_chunk(array->metadata(), config);
    warn_if_packed(*array);
    return {std::move(array), box};
  } catch (const Error& error) {  // may be shared with other samples of the same array
    throw Error(error).at_uri(uri);
  }
}

Admitted admit(const Sample& sample, const Config& config, const std::shared_ptr<const BatchLayout>& layout,
               const std::function<std::shared_ptr<const Array>(const std::string& uri)>& open) {
  return sample.parts.empty() ? admit_unnamed(sample, config, layout, open) : admit_named(sample, config, layout, open);
}

}  // namespace damacy
