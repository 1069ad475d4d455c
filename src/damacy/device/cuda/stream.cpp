// Enqueueing. Each call makes our context current for its own duration only.
#include "damacy/device/cuda/stream.h"

#include <algorithm>
#include <array>

#include "damacy/core/formatted.h"
#include "damacy/device/cuda/event.h"
#include "damacy/device/trace.h"

namespace damacy::cuda {
namespace {

CUdeviceptr address(const std::byte* memory) noexcept {
  return reinterpret_cast<CUdeviceptr>(memory);
}

bool means_capture(CUresult result) noexcept {
  return result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

void CUDA_CB run_task(void* task) {
  const std::unique_ptr<std::function<void()>> owned(static_cast<std::function<void()>*>(task));
  [&]() noexcept { (*owned)(); }();
}

}  // namespace

CudaStream::CudaStream(std::shared_ptr<const Context> context) : context_(std::move(context)) {
  const Use use(*context_);
  context_->check(context_->calls().cuStreamCreateWithPriority(&handle_, CU_STREAM_NON_BLOCKING, 0),
                  "cuStreamCreateWithPriority");
}

CudaStream::CudaStream(std::shared_ptr<const Context> context, CUstream borrowed) noexcept
    : context_(std::move(context)), handle_(borrowed), borrowed_(true) {}

CudaStream::~CudaStream() {
  if (borrowed_) return;
  quietly(*context_, [this](const Calls& calls) { context_->note(calls.cuStreamDestroy(handle_), "cuStreamDestroy"); });
}

void CudaStream::copy(std::span<std::byte> dst, std::span<const std::byte> src) {
  if (dst.size() != src.size())
    throw Error(Status::inval, formatted("cannot copy {} bytes to {} bytes: the sizes differ", src.size(), dst.size()),
                "buffers");
  if (src.empty()) return;
  const TraceRange stage("damacy copy");
  const Use use(*context_);
  context_->check(context_->calls().cuMemcpyAsync(address(dst.data()), address(src.data()), src.size(), handle_),
                  "cuMemcpyAsync");
}

bool CudaStream::copy_many(std::span<const MemoryCopy> copies) {
  constexpr std::size_t kAtOnce = 256;
  const auto call = context_->calls().copy_batch;
  if (call == nullptr || is_default()) return false;  // the driver refuses the default stream
  const TraceRange stage("damacy copies");
  const Use use(*context_);
  while (!copies.empty()) {
    std::array<CUdeviceptr, kAtOnce> to, from;
    std::array<std::size_t, kAtOnce> sizes;
    const std::size_t count = std::min(copies.size(), kAtOnce);
    for (std::size_t i = 0; i < count; ++i) {
      to[i] = address(copies[i].to.data());
      from[i] = address(copies[i].from.data());
      sizes[i] = copies[i].from.size();
    }
    BatchAttributes attributes;
    std::size_t first = 0;
    context_->check(call(to.data(), from.data(), sizes.data(), count, &attributes, &first, 1, handle_),
                    "cuMemcpyBatchAsync");
    copies = copies.subspan(count);
  }
  return true;
}

void CudaStream::fill(std::span<std::byte> dst, std::byte value) {
  if (dst.empty()) return;
  const Use use(*context_);
  context_->check(
      context_->calls().cuMemsetD8Async(address(dst.data()), static_cast<unsigned char>(value), dst.size(), handle_),
      "cuMemsetD8Async");
}

void CudaStream::host_task(std::function<void()> task) {
  auto owned = std::make_unique<std::function<void()>>(std::move(task));
  const Use use(*context_);
  context_->check(context_->calls().cuLaunchHostFunc(handle_, run_task, owned.get()), "cuLaunchHostFunc");
  static_cast<void>(owned.release());  // run_task's now; a lost device never runs it, and it stays
}

void CudaStream::enqueue(Work work) {
  if (!work.launch) throw Error(Status::inval, "work without a CUDA form on a CUDA device", "arguments");
  const Use use(*context_);
  context_->check(static_cast<CUresult>(work.launch(native_handle())), "a kernel launch");
}

void CudaStream::wait(const Event& event) {
  if (event.state() == nullptr) return;
  const Use use(*context_);
  wait_on(*context_, handle_, event);
}

Event CudaStream::record(bool timed) {
  const Use use(*context_);
  return record_on(context_, handle_, timed);
}

void CudaStream::record_again(Event& event) {
  const Use use(*context_);
  auto* own = dynamic_cast<CudaEvent*>(event.state().get());
  if (own == nullptr || !own->is_plain_of(*context_)) {
    event = record_on(context_, handle_, /*timed=*/false);
    return;
  }
  context_->check(context_->calls().cuEventRecord(own->handle(), handle_), "cuEventRecord");
  own->recorded_again();
}

void CudaStream::together(const std::function<void()>& body) {
  const Use use(*context_);
  body();
}

std::uint64_t CudaStream::native_handle() const noexcept {
  return reinterpret_cast<std::uint64_t>(handle_);
}

bool CudaStream::is_capturing() {
  const Use use(*context_);
  return cuda::is_capturing(*context_, handle_);
}

bool is_capturing(const Context& context, CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = context.calls().cuStreamIsCapturing(stream, &status);
  if (means_capture(result)) return true;
  context.check(result, "cuStreamIsCapturing");
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

Event record_on(const std::shared_ptr<const Context>& context, CUstream stream, bool timed) {
  auto event = std::make_shared<CudaEvent>(context, timed);
  context->check(context->calls().cuEventRecord(event->handle(), stream), "cuEventRecord");
  return Event(std::move(event));
}

void wait_on(const Context& context, CUstream stream, const Event& event) {
  if (event.state() == nullptr) return;
  const auto* awaited = dynamic_cast<const CudaEvent*>(event.state().get());
  if (awaited == nullptr)
    throw Error(Status::inval, "a stream cannot wait for an event of another device", "arguments");
  context.check(context.calls().cuStreamWaitEvent(stream, awaited->handle(), CU_EVENT_WAIT_DEFAULT),
                "cuStreamWaitEvent");
}

}  // namespace damacy::cuda
