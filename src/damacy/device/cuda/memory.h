// Device memory and page-locked memory behind Alloc.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_set>

#include "damacy/device/alloc.h"
#include "damacy/device/cuda/context.h"

namespace damacy::cuda {

class DeviceMemory final : public Alloc {
 public:
  explicit DeviceMemory(std::shared_ptr<const Context> context) : context_(std::move(context)) {}
  std::byte* take(std::size_t bytes) override;
  void give(std::byte* memory, std::size_t bytes) noexcept override;

 private:
  std::shared_ptr<const Context> context_;
};

// Pages of ours, touched by several threads and then registered: an eighth of the time the driver's own allocation
// takes (2 GiB on an H200's host: 85 ms, against 620 to 710 ms). Where registering is not supported, the driver's own.
class PinnedMemory final : public Alloc {
 public:
  explicit PinnedMemory(std::shared_ptr<const Context> context) : context_(std::move(context)) {}
  std::byte* take(std::size_t bytes) override;
  void give(std::byte* memory, std::size_t bytes) noexcept override;

 private:
  std::byte* take_from_driver(std::size_t bytes);

  std::shared_ptr<const Context> context_;
  PageAlloc pages_;
  std::mutex mutex_;
  std::unordered_set<std::byte*> from_driver_;
};

}  // namespace damacy::cuda
