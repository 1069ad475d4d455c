// Device memory, queued copies and reads to devices for damacy._device.array and damacy.zarr. Native work releases the
// GIL.
#include "damacy/copy/device_queue.h"

#include <map>

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "buffer_view.h"
#include "damacy/core/fork.h"
#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"
#include "damacy/device/cuda_device.h"
#include "damacy/single/process_waves.h"
#include "damacy/wave/device_waves.h"
#include "memory_blocks.h"

namespace damacy::python {
namespace {

std::shared_ptr<DeviceQueue> new_queue(int device) {
  return std::make_shared<DeviceQueue>(bind_primary_context(device), make_cuda_copier());
}

// One per device; lives until the process ends.
std::shared_ptr<DeviceQueue> queue_of(int device) {
  struct All {
    Mutex mutex;
    std::uint64_t epoch = fork_epoch();
    std::map<int, std::shared_ptr<DeviceQueue>> queues DAMACY_GUARDED_BY(mutex);
  };
  static auto* const all = new All;
  const Lock lock(all->mutex);
  if (all->epoch != fork_epoch())
    throw Error(Status::shutdown, "device arrays of the parent process cannot be used after a fork", "forked")
        .in_stage("forked");
  auto& queue = all->queues[device];
  if (!queue) queue = new_queue(device);
  return queue;
}

nb::dict device_read_counters(bool reset) {
  const Metric copies = process_waves().copies(reset);
  nb::dict out;
  out["h2d_bytes"] = static_cast<std::int64_t>(copies.input_bytes);
  out["h2d_copies"] = copies.count;
  return out;
}

std::span<std::byte> bytes_at(std::uint64_t address, std::uint64_t size) {
  return {reinterpret_cast<std::byte*>(address), size};  // NOLINT(performance-no-int-to-ptr)
}

Dtype dtype_of_size(std::int64_t itemsize) {
  switch (itemsize) {
    case 2:
      return Dtype::u16;
    case 4:
      return Dtype::u32;
    case 8:
      return Dtype::u64;
    case 16:
      return Dtype::complex128;
    default:
      return Dtype::u8;
  }
}

// Copies elements of `itemsize` bytes of any type. Without a type of that size, copies byte by byte.
void copy_strided(DeviceQueue& queue, std::uint64_t src, std::uint64_t dst, std::int64_t itemsize, bool swap,
                  const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& src_strides,
                  const std::vector<std::int64_t>& dst_strides) {
  if (shape.size() >= kMaxRank)
    throw Error(Status::rank, formatted("a copy of {} axes: at most {} are supported", shape.size(), kMaxRank - 1),
                "limit");
  BlockCopy copy;
  copy.op = {dtype_of_size(itemsize), dtype_of_size(itemsize), swap};
  std::int64_t low = 0, high = itemsize;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    copy.axes[copy.rank++] = {shape[i], src_strides[i], dst_strides[i]};
    if (shape[i] == 0) return;
    const std::int64_t reach = (shape[i] - 1) * src_strides[i];
    (reach < 0 ? low : high) += reach;
  }
  if (size_of(copy.op.from) != static_cast<std::size_t>(itemsize)) copy.axes[copy.rank++] = {itemsize, 1, 1};
  copy.src_offset = -low;
  queue.copy(copy, bytes_at(src + static_cast<std::uint64_t>(low), static_cast<std::uint64_t>(high - low)), dst);
}

MemoryBlock device_block(const std::shared_ptr<DeviceQueue>& queue, std::uint64_t size) {
  release_waiting();
  const GilRelease unlocked;
  auto buffer = std::make_shared<HostBuffer>(queue->allocate(std::max<std::uint64_t>(size, 1)));
  const auto address = reinterpret_cast<std::uint64_t>(buffer->data());
  return {address, size, std::move(buffer)};
}

}  // namespace

void stop_device_reads() noexcept {
  process_waves().stop();
}

void bind_device_queue(nb::module_& m) {
  nb::class_<DeviceQueue>(m, "DeviceQueue")
      .def("upload",
           [](DeviceQueue& queue, std::uint64_t dst, nb::handle src) {
             const BufferView held(src, PyBUF_SIMPLE);
             const GilRelease unlocked;
             queue.upload(bytes_at(dst, held.bytes().size()), held.bytes());
           })
      .def("download",
           [](DeviceQueue& queue, nb::handle dst, std::uint64_t src) {
             const BufferView held(dst, PyBUF_WRITABLE);
             const GilRelease unlocked;
             queue.download(held.bytes(), bytes_at(src, held.bytes().size()));
           })
      .def("copy", &copy_strided, nb::arg("src"), nb::arg("dst"), nb::arg("itemsize"), nb::arg("swap"),
           nb::arg("shape"), nb::arg("src_strides"), nb::arg("dst_strides"), nb::call_guard<GilRelease>())
      .def(
          "wait_for", [](DeviceQueue& queue, std::uint64_t stream) { return queue.wait_for(stream); },
          nb::arg("stream"), nb::call_guard<GilRelease>(), "False: the stream is being captured.")
      .def("make_wait", &DeviceQueue::make_wait, nb::arg("stream"), nb::call_guard<GilRelease>())
      .def(
          "sync", [](DeviceQueue& queue) { queue.record().wait(); }, nb::call_guard<GilRelease>())
      .def_prop_ro("stream", &DeviceQueue::native_handle);
  m.def("device_queue", &queue_of, nb::arg("device"), nb::call_guard<GilRelease>(),
        "The queue of a CUDA device. Raises InvalidArgument if there is no such device.");
  m.def("new_device_queue", &new_queue, nb::arg("device"), nb::call_guard<GilRelease>(),
        "A new queue of its own, which lives as long as the returned object.");
  nb::class_<DeviceWaves>(m, "DeviceWaves");  // NOLINT(bugprone-unused-raii): registers the class
  m.def(
      "device_reads",
      [](int device) {
        (void)queue_of(device);  // in a forked child it says why it cannot be used
        return process_waves().of_gpu(device);
      },
      nb::arg("device"), nb::call_guard<GilRelease>(),
      "The selection reads into a CUDA device's memory. Raises InvalidArgument if there is no such device.");
  m.def(
      "lazy_device_reads", [](std::size_t slab) { return process_waves().of_lazy_host(slab); }, nb::arg("slab"),
      "For tests: a lazy host device, which does each operation as late as possible.");
  m.def("device_read_counters", &device_read_counters, nb::arg("reset") = false);
  m.def("device_block", &device_block, nb::arg("queue"), nb::arg("size"));
  m.def(
      "current_cuda_device",
      [] {
        const GilRelease unlocked;
        if (probe_cuda().state != CudaState::usable) return -1;
        const auto current = bind_current_context();
        return current ? current->index() : 0;
      },
      "The index of this thread's current device, 0 if it has none; -1 without a usable GPU.");
}

}  // namespace damacy::python
