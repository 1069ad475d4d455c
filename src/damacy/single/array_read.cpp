#include "damacy/single/array_read.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <optional>
#include <utility>

#include "damacy/copy/block.h"
#include "damacy/core/checked.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "damacy/device/cuda_device.h"
#include "damacy/plan/selection.h"
#include "damacy/single/point_objects.h"
#include "damacy/single/process_readers.h"
#include "damacy/single/process_waves.h"
#include "damacy/single/read_layout.h"
#include "damacy/single/selection_plan.h"
#include "damacy/single/selection_read.h"
#include "damacy/store/storage_watch.h"
#include "damacy/zarr/catalog.h"
#include "damacy/zarr/metadata.h"

namespace damacy {
namespace {

constinit std::atomic<std::uint64_t> cache_bytes{0};  // that set_read_cache() set last

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

// The stretches of any axis, checked.
ResolvedSelection selection_of(const ArrayMetadata& array, std::span<const std::vector<AxisStretch>> axes) {
  if (axes.size() != array.shape.size())
    throw Error(Status::inval, formatted("indices of {} axes, the array has {}", axes.size(), array.shape.size()),
                "aabb");
  ResolvedSelection out;
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    std::int64_t count = 0;
    for (const AxisStretch& stretch : axes[axis]) {
      const std::int64_t extent = array.shape[axis];
      const bool is_valid = stretch.start >= 0 && stretch.step >= 0 && stretch.count >= 0;
      const bool is_inside =
          is_valid && (stretch.count == 0 ||
                       (stretch.start < extent &&
                        (stretch.step == 0 || stretch.count - 1 <= (extent - 1 - stretch.start) / stretch.step)));
      if (!is_inside)
        throw Error(Status::inval,
                    formatted("aabb axis {}: {} indices from {} in steps of {} are not inside an axis of {} elements",
                              axis, stretch.count, stretch.start, stretch.step, extent),
                    "aabb");
      count += stretch.count;
    }
    out.axes.push_back(axes[axis]);
    out.extents.push_back(count);
    out.shape.push_back(count);
    out.keeps.push_back(true);
  }
  return out;
}

// Along each axis the parts that fall into one stored object.
std::vector<std::vector<AxisPart>> parts_of(const Array& array, const ResolvedSelection& what,
                                            const ReadLayout& layout) {
  std::vector<std::vector<AxisPart>> parts;
  for (std::size_t axis = 0; axis < array.rank(); ++axis) {
    AxisRuns runs;
    std::int64_t to = axis == 0 ? layout.first : 0;
    const std::int64_t step = layout.strides[axis];
    for (const AxisStretch& stretch : what.axes[axis]) {
      if (stretch.count == 0) continue;
      const std::int64_t last = stretch.count - 1;
      if (stretch.step >= 0)
        runs.push_back({stretch.start, stretch.step, to, step, stretch.count});
      else
        runs.push_back({stretch.start + last * stretch.step, -stretch.step, to + last * step, -step, stretch.count});
      to += stretch.count * step;
    }
    parts.push_back(split_runs(runs, array.metadata().shard_shape[axis]));
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

void check_conversion(Dtype from, Dtype to) {
  if (has_conversion(from, to)) return;
  throw Error(Status::dtype, formatted("no conversion from {} to {}", name_of(from), name_of(to)), "dtype");
}

// The request without its items; `what` has the shape of the result.
std::pair<SelectionRequest, ReadLayout> request_for(const Array& array, const ResolvedSelection& what,
                                                    const ReadOutput& out) {
  const Dtype stored = array.dtype();
  const Dtype wanted = out.dtype.value_or(stored);
  check_conversion(stored, wanted);
  const auto element = static_cast<std::int64_t>(size_of(wanted));
  const ReadLayout layout = layout_of(what, out, element);
  SelectionRequest request;
  request.object = stored_array(array.uri(), array.metadata(), {.device = array.id()[0], .inode = array.id()[1]});
  request.store = array.store();
  request.fill = array.metadata().fill;
  request.out = layout.memory;
  if (wanted != stored) request.as = wanted;
  return {std::move(request), layout};
}

SelectionRequest request_of(const Array& array, const ResolvedSelection& what, const ReadOutput& out) {
  auto [request, layout] = request_for(array, what, out);
  check_pieces(what.axes);
  const auto elements = product(what.extents.span());
  if (elements && *elements > 0) request.items = objects_of(array, parts_of(array, what, layout));
  return std::move(request);
}

SelectionRequest request_of(const Array& array, const ResolvedPoints& points, const ReadOutput& out) {
  if (array.rank() == 1) return request_of(array, Selection{points.axes[0]}.of(array.shape()), out);
  ResolvedSelection result;
  result.shape = {static_cast<std::int64_t>(points.count)};
  result.keeps = {true};
  auto [request, layout] = request_for(array, result, out);
  request.items = objects_of_points(array, points, layout.first, layout.strides[0]);
  return std::move(request);
}

DeviceWaves* waves_of(const ReadOutput& out) {
  if (!out.is_on_device || out.memory.empty()) return nullptr;
  const auto address = reinterpret_cast<std::uint64_t>(out.memory.data());
  const auto device = bind_pointer(address);
  if (device == nullptr) {
    const CudaProbe probe = probe_cuda();
    throw Error(Status::inval,
                probe.state == CudaState::usable
                    ? formatted("the output at address {} is not memory of a GPU", address)
                    : formatted("the output is said to be memory of a GPU, but none is usable: {}", probe.why),
                "no-device");
  }
  return process_waves().of_gpu(device->index()).get();  // lives as long as the process
}

Event work_before(DeviceWaves& waves, std::uint64_t stream) {
  const auto before = waves.device().try_fence(stream);
  if (!before) throw Error(Status::cuda, "the stream is capturing a graph: a read cannot be captured", "capture");
  return *before;
}

template <class Body>
auto at_array(const Array& array, Body body) {
  try {
    return body();
  } catch (Error& e) {
    throw e.at_uri(array.uri()).at_store(array.store()->name());
  }
}

}  // namespace

// Waits for the end of a read, also when the waiting thread is abandoned: readers still write to the output.
class ArrayRead::State {
 public:
  // `array` outlives it, or is kept.
  State(const Array& array, std::shared_ptr<const Array> keep, SelectionRequest request)
      : array_(array), keep_(std::move(keep)) {
    if (request.items.empty()) return;
    if (array.metadata().separator_was_absent)
      for (const SelectedObject& object : request.items) keys_.push_back(object.key);
    if (request.device == nullptr) request.cache = process_readers().any_cache(cache_bytes);
    request.keeps_indices = request.cache != nullptr;
    const auto end = std::make_shared<std::promise<void>>();
    ended_ = end->get_future();
    read_.emplace(*readers_, std::move(request), [end] { end->set_value(); });
    read_->start();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    cancel();
    while (!ends_within(kLook)) {
    }
  }

  bool ends_within(std::chrono::nanoseconds most) {
    if (!read_ || ended_.wait_for(most) == std::future_status::ready) return true;
    readers_->threads().abandon_overdue();
    return false;
  }
  void cancel() noexcept {
    if (read_) read_->cancel();
  }
  // Each look is an operation of its own, so that only an interrupt abandons a wait that is long.
  void wait(const std::stop_token& stop) {
    while (!StorageWatch::wait_behind([this] { return ends_within(kLook); }))
      if (stop.stop_requested()) cancel();
  }
  // After the end.
  void check() const {
    if (!read_) return;
    if (read_->failure()) throw *read_->failure();
    const auto missing = std::ranges::find(read_->missing(), 1);
    if (missing == read_->missing().end() || keys_.empty()) return;
    Catalog::check_missing_chunk(array_, keys_[static_cast<std::size_t>(missing - read_->missing().begin())]);
  }
  const Array& array() const noexcept { return array_; }

 private:
  const Array& array_;
  const std::shared_ptr<const Array> keep_;
  const std::shared_ptr<SelectionReaders> readers_ = process_readers().one_thread_a_core();
  std::vector<std::string> keys_;
  std::optional<SelectionRead> read_;  // empty: nothing was selected
  std::future<void> ended_;
};

ArrayRead::ArrayRead(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
ArrayRead::ArrayRead(ArrayRead&&) noexcept = default;
ArrayRead& ArrayRead::operator=(ArrayRead&&) noexcept = default;
ArrayRead::~ArrayRead() = default;

bool ArrayRead::done() const {
  return state_->ends_within(std::chrono::nanoseconds(0));
}

bool ArrayRead::wait_for(std::chrono::nanoseconds timeout) {
  const auto end =
      std::chrono::steady_clock::now() + std::min<std::chrono::nanoseconds>(timeout, std::chrono::hours(1 << 16));
  for (;;) {
    const auto left = std::max(end - std::chrono::steady_clock::now(), std::chrono::steady_clock::duration(0));
    if (state_->ends_within(std::min<std::chrono::nanoseconds>(left, kLook))) return true;
    if (left.count() == 0) return false;
  }
}

void ArrayRead::get() {
  at_array(state_->array(), [this] {
    state_->wait({});
    state_->check();
  });
}

void ArrayRead::cancel() noexcept {
  state_->cancel();
}

ArrayRead ArrayRead::begin(std::shared_ptr<const Array> array, SelectionRequest request, const ReadOutput& out,
                           DeviceWaves* waves) {
  const Array& read = *array;
  if (waves != nullptr && !request.items.empty()) {
    request.device = waves;
    request.after.push_back(work_before(*waves, out.stream));
  }
  return ArrayRead(std::make_unique<ArrayRead::State>(read, std::move(array), std::move(request)));
}

ArrayRead begin_read(std::shared_ptr<const Array> array, const ResolvedSelection& what, const ReadOutput& out,
                     DeviceWaves* waves) {
  const Array& read = *array;
  return at_array(read, [&] { return ArrayRead::begin(std::move(array), request_of(read, what, out), out, waves); });
}

ArrayRead begin_read(std::shared_ptr<const Array> array, const ResolvedPoints& what, const ReadOutput& out,
                     DeviceWaves* waves) {
  const Array& read = *array;
  return at_array(read, [&] { return ArrayRead::begin(std::move(array), request_of(read, what, out), out, waves); });
}

ArrayRead begin_read(std::shared_ptr<const Array> array, const Selection& what, const ReadOutput& out) {
  const Array& read = *array;
  return at_array(read, [&] {
    const ResolvedSelection resolved = what.of(read.shape());
    return begin_read(std::move(array), resolved, out, waves_of(out));
  });
}

ArrayRead begin_read(std::shared_ptr<const Array> array, const PointSelection& what, const ReadOutput& out) {
  const Array& read = *array;
  return at_array(read, [&] {
    const ResolvedPoints resolved = what.of(read.shape());
    return begin_read(std::move(array), resolved, out, waves_of(out));
  });
}

void ArrayRead::read_and_wait(const Array& array, SelectionRequest request, const ReadOutput& out,
                              const std::stop_token& stop) {
  DeviceWaves* const waves = waves_of(out);
  if (waves != nullptr && !request.items.empty()) {
    request.device = waves;
    request.after.push_back(work_before(*waves, out.stream));
  }
  ArrayRead::State read(array, nullptr, std::move(request));
  read.wait(stop);
  read.check();
  if (stop.stop_requested()) throw Error(Status::shutdown, "the read was cancelled");
}

void set_read_cache(std::uint64_t bytes) {
  process_readers().set_cache(cache_bytes, bytes);
}

std::uint64_t read_cache_setting() noexcept {
  return cache_bytes;
}

void read_stretches(const Array& array, std::span<const std::vector<AxisStretch>> axes, std::span<std::byte> out,
                    const std::stop_token& stop) {
  const ReadOutput to = ReadOutput::host(out);
  at_array(array, [&] {
    ArrayRead::read_and_wait(array, request_of(array, selection_of(array.metadata(), axes), to), to, stop);
  });
}

void Array::read(const Box& box, std::span<std::byte> out) const {
  at_array(*this, [&] { check_box(*metadata_, box, out.size()); });
  std::vector<std::vector<AxisStretch>> axes;
  for (std::size_t axis = 0; axis < box.rank(); ++axis)
    axes.push_back({{box.start[axis], 1, box.stop[axis] - box.start[axis]}});
  read_stretches(*this, axes, out);
}

void Array::read(const Selection& what, const ReadOutput& out) const {
  at_array(*this, [&] { ArrayRead::read_and_wait(*this, request_of(*this, what.of(shape()), out), out, {}); });
}

void Array::read(const PointSelection& what, const ReadOutput& out) const {
  at_array(*this, [&] { ArrayRead::read_and_wait(*this, request_of(*this, what.of(shape()), out), out, {}); });
}

}  // namespace damacy
