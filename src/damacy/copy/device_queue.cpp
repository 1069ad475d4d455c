#include "damacy/copy/device_queue.h"

#include "damacy/core/mutex.h"

namespace damacy {
namespace {

constexpr std::size_t kImageBytes = 256 << 10;

}  // namespace

DeviceQueue::DeviceQueue(std::shared_ptr<Device> device, std::unique_ptr<Copier> copier)
    : device_(std::move(device)),
      copier_(std::move(copier)),
      stream_(device_->make_stream()),
      pinned_(device_->pinned_memory(), kImageBytes),
      on_device_(device_->device_memory(), kImageBytes),
      pinned_image_(pinned_.bytes()) {}

void DeviceQueue::upload(std::span<std::byte> dst, std::span<const std::byte> src) {
  const Lock lock(mutex_);
  stream_->copy(dst, src);
  stream_->record().wait();
}

void DeviceQueue::copy(BlockCopy copy, std::span<const std::byte> src, std::uint64_t dst) {
  normalise(copy);
  PlacementList list;
  ChunkLayout layout;
  layout.chunk_bytes = src.size();
  list.add(copy, reinterpret_cast<std::uint64_t>(src.data()), dst, layout);
  const Lock lock(mutex_);
  enqueue_in_portions(*copier_, *stream_, list, pinned_image_, on_device_.bytes());
}

bool DeviceQueue::wait_for(std::uint64_t stream) {
  const auto fence = device_->try_fence(stream);
  if (fence) wait_for(*fence);
  return fence.has_value();
}

void DeviceQueue::wait_for(const Event& event) {
  const Lock lock(mutex_);
  stream_->wait(event);
}

void DeviceQueue::make_wait(std::uint64_t stream) {
  device_->make_wait(stream, record());
}

Event DeviceQueue::record() {
  const Lock lock(mutex_);
  return stream_->record();
}

std::uint64_t DeviceQueue::native_handle() {
  const Lock lock(mutex_);
  return stream_->native_handle();
}

}  // namespace damacy
