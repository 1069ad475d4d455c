// Buffers are freed without the lock: that may wait for a device.
#include "damacy/halo/buffer_pool.h"

#include <charconv>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy::halo {
namespace {

constexpr std::size_t kPoolBytes = std::size_t{512} << 20;

std::size_t bytes_from_environment() {
  const char* const given = std::getenv("DAMACY_HALO_POOL_BYTES");
  if (given == nullptr) return kPoolBytes;
  const std::string_view text(given);
  std::size_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error != std::errc() || end != text.data() + text.size())
    throw Error(Status::inval,
                formatted("environment variable DAMACY_HALO_POOL_BYTES='{}': expected a number, at least 0", text));
  return bytes;
}

}  // namespace

BufferPool::~BufferPool() {
  (void)failure_of([this] {
    const Lock lock(mutex_);
    for (auto oldest = idle_.drop_oldest(); !oldest.empty(); oldest = idle_.drop_oldest())
      oldest.front().buffer.last_use.wait();
  });
}

MessageBuffer BufferPool::take(std::shared_ptr<Device> device, std::size_t bytes) {
  if (bytes == 0) return {std::move(device), {}, {}};
  {
    const Lock lock(mutex_);
    if (auto found = idle_.take({device.get(), bytes})) return std::move(found->buffer);
  }
  std::shared_ptr<Alloc> alloc;
  if (device == nullptr)
    alloc = std::make_shared<PageAlloc>();
  else
    alloc = device->device_memory();
  return {std::move(device), HostBuffer(std::move(alloc), bytes), {}};
}

void BufferPool::give(MessageBuffer buffer) {
  if (buffer.memory.size() == 0) return;
  const Device* const device = buffer.device.get();
  const std::size_t bytes = buffer.memory.size();
  auto dropped = [&] {
    const Lock lock(mutex_);
    idle_.add({{device, bytes}, device, bytes, std::move(buffer)});
    return idle_.drop(device, most_idle_bytes_);
  }();
  for (const auto& old : dropped) old.buffer.last_use.wait();  // work may still use its memory
}

std::size_t BufferPool::idle_bytes() const {
  const Lock lock(mutex_);
  return idle_.bytes();
}

BufferPool& BufferPool::process() {
  // Never destroyed: at exit a device's driver may end first.
  static BufferPool& pool = *std::make_unique<BufferPool>(bytes_from_environment()).release();
  return pool;
}

}  // namespace damacy::halo
