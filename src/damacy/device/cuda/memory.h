// Device memory and page-locked memory behind Alloc.
#pragma once

#include <memory>

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

// Of every context: portable.
class PinnedMemory final : public Alloc {
 public:
  explicit PinnedMemory(std::shared_ptr<const Context> context) : context_(std::move(context)) {}
  std::byte* take(std::size_t bytes) override;
  void give(std::byte* memory, std::size_t bytes) noexcept override;

 private:
  std::shared_ptr<const Context> context_;
};

}  // namespace damacy::cuda
