// A private, non-blocking stream behind Stream.
#pragma once

#include <memory>

#include "damacy/device/cuda/context.h"
#include "damacy/device/device.h"

namespace damacy::cuda {

class CudaStream final : public Stream {
 public:
  explicit CudaStream(std::shared_ptr<const Context> context);
  ~CudaStream() override;

  void copy(std::span<std::byte> dst, std::span<const std::byte> src) override;
  void fill(std::span<std::byte> dst, std::byte value) override;
  void host_task(std::function<void()> task) override;
  void enqueue(Work work) override;
  void wait(const Event& event) override;
  Event record(bool timed) override;
  std::uint64_t native_handle() const noexcept override;

 private:
  const std::shared_ptr<const Context> context_;
  CUstream handle_ = nullptr;
};

// An event of the current context, recorded on `stream`.
Event record_on(const std::shared_ptr<const Context>& context, CUstream stream, bool timed);
// Later work of `stream` waits for `event`.
void wait_on(const Context& context, CUstream stream, const Event& event);

}  // namespace damacy::cuda
