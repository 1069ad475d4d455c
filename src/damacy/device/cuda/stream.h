// A CUDA stream as a Stream: a private non-blocking one, or one of another owner.
#pragma once

#include <memory>

#include "damacy/device/cuda/context.h"
#include "damacy/device/device.h"

namespace damacy::cuda {

class CudaStream final : public Stream {
 public:
  explicit CudaStream(std::shared_ptr<const Context> context);
  CudaStream(std::shared_ptr<const Context> context, CUstream borrowed) noexcept;
  ~CudaStream() override;

  void copy(std::span<std::byte> dst, std::span<const std::byte> src) override;
  bool copy_many(std::span<const MemoryCopy> copies) override;
  void fill(std::span<std::byte> dst, std::byte value) override;
  void host_task(std::function<void()> task) override;
  void enqueue(Work work) override;
  void wait(const Event& event) override;
  Event record(bool timed) override;
  void record_again(Event& event) override;
  void together(const std::function<void()>& body) override;
  std::uint64_t native_handle() const noexcept override;
  bool is_capturing() override;
  bool is_default() const noexcept override { return handle_ == nullptr || handle_ == CU_STREAM_LEGACY; }

 private:
  const std::shared_ptr<const Context> context_;
  CUstream handle_ = nullptr;
  bool borrowed_ = false;
};

// An event of the current context, recorded on `stream`.
Event record_on(const std::shared_ptr<const Context>& context, CUstream stream, bool timed);
// The legacy stream counts as capturing while any other stream is.
bool is_capturing(const Context& context, CUstream stream);
// Makes later work of `stream` wait for `event`.
void wait_on(const Context& context, CUstream stream, const Event& event);

}  // namespace damacy::cuda
