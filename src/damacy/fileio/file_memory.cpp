#include "damacy/fileio/file_requests.h"

#include <utility>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/device/cuda_device.h"

namespace damacy {
namespace {

std::shared_ptr<OnDevice> fenced(std::shared_ptr<Device> device, std::uint64_t stream) {
  device->check_usable();
  auto before = device->try_fence(stream);
  if (!before) throw Error(Status::cuda, "the stream is capturing a graph: file I/O cannot be captured", "capture");
  return std::make_shared<OnDevice>(OnDevice{std::move(device), std::move(*before), recorder_on(stream)});
}

}  // namespace

FileMemory device_memory(void* data, std::uint64_t size, std::uint64_t stream) {
  const auto address = reinterpret_cast<std::uint64_t>(data);
  auto device = bind_pointer(address);
  if (device == nullptr) {
    const CudaProbe probe = probe_cuda();
    throw Error(Status::inval,
                probe.state == CudaState::usable
                    ? formatted("the memory at address {} is not a GPU's: use host_memory()", address)
                    : formatted("device_memory() needs a GPU, but none is usable: {}", probe.why),
                "no-device");
  }
  return {static_cast<std::byte*>(data), size, fenced(std::move(device), stream)};
}

FileMemory after_stream(const FileMemory& memory, std::uint64_t stream) {
  if (memory.device == nullptr) return memory;
  return {memory.data, memory.size, fenced(memory.device->device, stream)};
}

FileMemory part_of(const FileMemory& memory, std::uint64_t offset, std::uint64_t size) {
  if (offset > memory.size || size > memory.size - offset)
    throw Error(Status::inval,
                formatted("{} bytes at {} are not inside a memory of {} bytes", size, offset, memory.size),
                "arguments");
  return {memory.data + offset, size, memory.device};
}

}  // namespace damacy
