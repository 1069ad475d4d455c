#include "damacy/single/array_read.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <vector>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "damacy/plan/selection.h"
#include "damacy/single/process_readers.h"
#include "damacy/single/selection_plan.h"
#include "damacy/single/selection_read.h"
#include "damacy/store/storage_watch.h"
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

std::int64_t count_of(const std::vector<AxisStretch>& axis) {
  std::int64_t count = 0;
  for (const AxisStretch& stretch : axis) count += stretch.count;
  return count;
}

void check_stretch(const AxisStretch& stretch, std::int64_t extent, std::size_t axis) {
  const bool is_valid = stretch.start >= 0 && stretch.step >= 0 && stretch.count >= 0;
  const bool is_inside =
      is_valid &&
      (stretch.count == 0 || (stretch.start < extent &&
                              (stretch.step == 0 || stretch.count - 1 <= (extent - 1 - stretch.start) / stretch.step)));
  if (!is_inside)
    throw Error(Status::inval,
                formatted("aabb axis {}: {} indices from {} in steps of {} are not inside an axis of {} elements", axis,
                          stretch.count, stretch.start, stretch.step, extent),
                "aabb");
}

// The extents of the output.
Dims checked_extents(const ArrayMetadata& array, std::span<const std::vector<AxisStretch>> axes,
                     std::size_t out_bytes) {
  if (axes.size() != array.shape.size())
    throw Error(Status::inval, formatted("indices of {} axes, the array has {}", axes.size(), array.shape.size()),
                "aabb");
  Dims extents;
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    for (const AxisStretch& stretch : axes[axis]) check_stretch(stretch, array.shape[axis], axis);
    extents.push_back(count_of(axes[axis]));
  }
  const auto elements = product(extents.span());
  const std::uint64_t bytes = elements ? static_cast<std::uint64_t>(*elements) * size_of(array.dtype) : 0;
  if (!elements || bytes != out_bytes)
    throw Error(Status::inval, formatted("the elements have {} bytes and the output {}", bytes, out_bytes), "aabb");
  return extents;
}

// Along each axis the parts that fall into one stored object.
std::vector<std::vector<AxisPart>> parts_of(const Array& array, std::span<const std::vector<AxisStretch>> axes,
                                            const Dims& extents) {
  const ArrayMetadata& metadata = array.metadata();
  const Dims strides = row_major_strides(extents);
  const auto element = static_cast<std::int64_t>(size_of(metadata.dtype));
  std::vector<std::vector<AxisPart>> parts;
  for (std::size_t axis = 0; axis < array.rank(); ++axis) {
    AxisRuns runs;
    std::int64_t to = 0;
    for (const AxisStretch& stretch : axes[axis]) {
      if (stretch.count == 0) continue;
      runs.push_back(
          {stretch.start, stretch.step, to * strides[axis] * element, strides[axis] * element, stretch.count});
      to += stretch.count;
    }
    parts.push_back(split_runs(runs, metadata.shard_shape[axis]));
  }
  return parts;
}

// Scattered indices of several axes multiply: each combination of runs is a copy of its own.
void check_pieces(std::span<const std::vector<AxisStretch>> axes) {
  std::uint64_t pieces = 1;
  for (const auto& axis : axes) {
    pieces *= std::max<std::uint64_t>(axis.size(), 1);
    if (pieces > Limits::chunks_per_sample)
      throw Error(Status::inval, formatted("more pieces of the selection than the limit {}", Limits::chunks_per_sample),
                  "limit");
  }
}

// One item for each stored object that the selection, which is not empty, touches.
std::vector<SelectedObject> objects_of(const Array& array, const std::vector<std::vector<AxisPart>>& axes) {
  const ArrayMetadata& metadata = array.metadata();
  std::int64_t count = 1;
  for (const auto& parts : axes) count *= std::ssize(parts);
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

// Waits for the end of a read, also when the waiting thread is abandoned: readers still write to the output.
class ReadEnd {
 public:
  ReadEnd(SelectionRead& read, SelectionReaders& readers, std::future<void> ended)
      : read_(read), readers_(readers), ended_(std::move(ended)) {}
  ReadEnd(const ReadEnd&) = delete;
  ReadEnd& operator=(const ReadEnd&) = delete;
  ~ReadEnd() {
    read_.cancel();
    while (!has_ended()) {
    }
  }

  // Each look is an operation of its own, so that only an interrupt abandons a wait that is long.
  void wait(const std::stop_token& stop) {
    while (!StorageWatch::wait_behind([this] { return has_ended(); }))
      if (stop.stop_requested()) read_.cancel();
  }

 private:
  bool has_ended() {
    if (ended_.wait_for(kLook) == std::future_status::ready) return true;
    readers_.threads().abandon_overdue();
    return false;
  }

  SelectionRead& read_;
  SelectionReaders& readers_;
  std::future<void> ended_;
};

void read_into(const Array& array, std::span<const std::vector<AxisStretch>> axes, const Dims& extents,
               std::span<std::byte> out, const std::stop_token& stop) {
  SelectionRequest request;
  request.object = stored_array(array.uri(), array.metadata());
  request.store = array.store();
  request.items = objects_of(array, parts_of(array, axes, extents));
  request.fill = array.metadata().fill;
  request.out = out;
  const auto readers = process_readers().one_thread_a_core();
  const auto end = std::make_shared<std::promise<void>>();
  SelectionRead read(*readers, std::move(request), [end] { end->set_value(); });
  read.start();
  ReadEnd(read, *readers, end->get_future()).wait(stop);
  if (read.failure()) throw *read.failure();
  if (stop.stop_requested()) throw Error(Status::shutdown, "the read was cancelled");
  if (std::ranges::count(read.missing(), 1) > 0) Catalog::check_missing_chunk(array);
}

}  // namespace

void read_stretches(const Array& array, std::span<const std::vector<AxisStretch>> axes, std::span<std::byte> out,
                    const std::stop_token& stop) {
  try {
    const Dims extents = checked_extents(array.metadata(), axes, out.size());
    check_pieces(axes);
    if (!out.empty()) read_into(array, axes, extents, out, stop);
  } catch (Error& e) {
    throw e.at_uri(array.uri()).at_store(array.store()->name());
  }
}

void Array::read(const Box& box, std::span<std::byte> out) const {
  try {
    check_box(*metadata_, box, out.size());
  } catch (Error& e) {
    throw e.at_uri(uri_).at_store(store_->name());
  }
  std::vector<std::vector<AxisStretch>> axes;
  for (std::size_t axis = 0; axis < box.rank(); ++axis)
    axes.push_back({{box.start[axis], 1, box.stop[axis] - box.start[axis]}});
  read_stretches(*this, axes, out);
}

}  // namespace damacy
