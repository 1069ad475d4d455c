// Array::read: the elements of a box as one selection read, directly from the store. For types that batches do not
// support, and for tools.
#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <vector>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/plan/selection.h"
#include "damacy/single/process_readers.h"
#include "damacy/single/selection_plan.h"
#include "damacy/single/selection_read.h"
#include "damacy/zarr/array.h"
#include "damacy/zarr/catalog.h"
#include "damacy/zarr/metadata.h"

namespace damacy {
namespace {

constexpr auto kLook = std::chrono::milliseconds(50);  // between two looks for storage calls beyond their deadline

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

// One item for each stored object that the box, which is not empty, touches.
std::vector<SelectedObject> objects_of(const Array& array, const Box& box) {
  const ArrayMetadata& metadata = array.metadata();
  const Dims extents = box.extents(), strides = row_major_strides(extents);
  const auto element = static_cast<std::int64_t>(size_of(metadata.dtype));
  std::vector<std::vector<AxisPart>> axes;
  std::int64_t count = 1;
  for (std::size_t axis = 0; axis < array.rank(); ++axis) {
    const Run run{box.start[axis], 1, 0, strides[axis] * element, extents[axis]};
    axes.push_back(split_runs({run}, metadata.shard_shape[axis]));
    count *= std::ssize(axes.back());
  }
  std::vector<SelectedObject> objects(static_cast<std::size_t>(count));
  for (std::int64_t number = 0; number < count; ++number) {
    SelectedObject& object = objects[static_cast<std::size_t>(number)];
    object.axes.resize(array.rank());
    Dims chunk(array.rank(), 0);  // the first in it
    std::int64_t rest = number;
    for (std::size_t axis = array.rank(); axis-- > 0; rest /= std::ssize(axes[axis])) {
      const AxisPart& part = axes[axis][static_cast<std::size_t>(rest % std::ssize(axes[axis]))];
      object.axes[axis] = part.runs;
      chunk[axis] = part.chunk * (metadata.shard_shape[axis] / metadata.chunk_shape[axis]);
    }
    object.key = array.key_of_shard(array.shard_of_chunk(chunk));
  }
  return objects;
}

}  // namespace

void Array::read(const Box& box, std::span<std::byte> out) const {
  try {
    check_box(*metadata_, box, out.size());
    if (out.empty()) return;
    SelectionRequest request;
    request.object = stored_array(uri_, *metadata_);
    request.store = store_;
    request.items = objects_of(*this, box);
    request.fill = metadata_->fill;
    request.out = out;
    const auto readers = process_readers().one_thread_a_core();
    const auto end = std::make_shared<std::promise<void>>();
    SelectionRead read(*readers, std::move(request), [end] { end->set_value(); });
    read.start();
    const std::future<void> ended = end->get_future();
    while (ended.wait_for(kLook) != std::future_status::ready) readers->threads().abandon_overdue();
    if (read.failure()) throw *read.failure();
    if (std::ranges::count(read.missing(), 1) > 0) Catalog::check_missing_chunk(*this);
  } catch (Error& e) {
    throw e.at_uri(uri_).at_store(store_->name());
  }
}

}  // namespace damacy
