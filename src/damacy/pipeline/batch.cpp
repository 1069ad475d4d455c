#include "damacy/pipeline/batch.h"

#include <array>
#include <cstring>
#include <new>

#include "damacy/core/error.h"
#include "damacy/core/fork.h"
#include "damacy/device/alloc.h"
#include "damacy/pipeline/dlpack_abi.h"
#include "damacy/pipeline/slots.h"

namespace damacy {
namespace {

DLDataType dl_type(Dtype type) {
  enum : std::uint8_t { kInt = 0, kUint = 1, kFloat = 2, kBfloat = 4, kBool = 6 };
  const auto bits = static_cast<std::uint8_t>(size_of(type) * 8);
  switch (type) {
    case Dtype::bf16:
      return {kBfloat, bits, 1};
    case Dtype::boolean:
      return {kBool, bits, 1};
    case Dtype::f16:
    case Dtype::f32:
    case Dtype::f64:
      return {kFloat, bits, 1};
    case Dtype::i8:
    case Dtype::i16:
    case Dtype::i32:
    case Dtype::i64:
      return {kInt, bits, 1};
    default:
      return {kUint, bits, 1};
  }
}

// What a tensor made from a batch owns: the slot, or its own copy, and its shape.
struct Exported {
  std::shared_ptr<SlotLoan> loan;
  HostBuffer copy;
  std::array<std::int64_t, kMaxRank + 1> shape;
  std::array<std::int64_t, kMaxRank + 1> strides;
};

template <class Managed>
struct ManagedExport {
  Managed tensor;
  Exported owned;
};

template <class Managed>
void drop(Managed* tensor) {
  delete static_cast<ManagedExport<Managed>*>(tensor->manager_ctx);
}

template <class Managed>
Managed* export_batch(const BatchInfo& info, std::shared_ptr<SlotLoan> loan, DlDevice device, bool copy) {
  auto made = std::make_unique<ManagedExport<Managed>>();
  std::int64_t stride = 1;
  for (std::size_t i = info.shape.size(); i-- > 0;) {
    made->owned.shape[i] = info.shape[i];
    made->owned.strides[i] = stride;
    stride *= info.shape[i];
  }
  auto* data = reinterpret_cast<std::byte*>(info.device_ptr);
  if (copy) {
    const auto bytes = static_cast<std::size_t>(stride) * size_of(info.dtype);
    made->owned.copy = HostBuffer(std::make_shared<PageAlloc>(), bytes);
    std::memcpy(made->owned.copy.data(), data, bytes);
    data = made->owned.copy.data();
  } else {
    made->owned.loan = std::move(loan);
  }
  made->tensor.dl_tensor = {data,
                            {device.type, device.index},
                            static_cast<std::int32_t>(info.shape.size()),
                            dl_type(info.dtype),
                            made->owned.shape.data(),
                            made->owned.strides.data(),
                            0};
  made->tensor.manager_ctx = made.get();
  made->tensor.deleter = &drop<Managed>;
  return &made.release()->tensor;
}

}  // namespace

struct Batch::State {
  BatchInfo info;
  std::vector<bool> valid;
  std::vector<std::int64_t> sample_indices;
  mutable std::mutex mutex;
  std::shared_ptr<SlotLoan> loan;  // null: released
  std::uint64_t epoch = fork_epoch();

  std::shared_ptr<SlotLoan> held() const {
    if (epoch != fork_epoch())
      throw Error(Status::shutdown, "the batch belongs to the parent process", "forked").in_stage("forked");
    const std::lock_guard lock(mutex);
    if (!loan)
      throw Error(Status::inval, "the batch was released", "arguments").in_stage("release").at_batch(info.batch_id, {});
    return loan;
  }
};

Batch::Batch(BatchInfo info, std::shared_ptr<SlotLoan> loan, std::vector<bool> valid,
             std::vector<std::int64_t> sample_indices)
    : state_(std::make_unique<State>()) {
  state_->info = info;
  state_->loan = std::move(loan);
  state_->valid = std::move(valid);
  state_->sample_indices = std::move(sample_indices);
}
Batch::Batch(Batch&&) noexcept = default;
Batch& Batch::operator=(Batch&&) noexcept = default;
Batch::~Batch() {
  if (state_ && state_->epoch != fork_epoch())
    static_cast<void>(state_.release());  // the parent's: leak, touch nothing
}

BatchInfo Batch::info() const {
  const auto held = state_->held();
  return state_->info;
}
std::int64_t Batch::batch_id() const noexcept {
  return state_->info.batch_id;
}
const std::vector<bool>& Batch::valid() const noexcept {
  return state_->valid;
}
const std::vector<std::int64_t>& Batch::sample_indices() const noexcept {
  return state_->sample_indices;
}

DlDevice Batch::device() const {
  const auto held = state_->held();
  return {};
}

bool Batch::on_host() const noexcept {
  return true;
}

bool Batch::released() const {
  const std::lock_guard lock(state_->mutex);
  return !state_->loan;
}

std::span<const std::byte> Batch::bytes() const {
  const auto held = state_->held();
  const std::size_t elements = static_cast<std::size_t>(*product(state_->info.shape.span()));
  return held->memory().first(elements * size_of(state_->info.dtype));
}

void Batch::release(std::optional<std::uint64_t>) noexcept {
  if (state_->epoch != fork_epoch()) return;
  std::shared_ptr<SlotLoan> dropped;  // after the lock: the loan's end calls the pipeline
  const std::lock_guard lock(state_->mutex);
  dropped.swap(state_->loan);
}

DLManagedTensor* Batch::to_dlpack(bool copy) const {
  return export_batch<DLManagedTensor>(state_->info, state_->held(), device(), copy);
}

DLManagedTensorVersioned* Batch::to_dlpack_versioned(bool copy) const {
  auto* tensor = export_batch<DLManagedTensorVersioned>(state_->info, state_->held(), device(), copy);
  tensor->version = {1, 0};
  tensor->flags = copy ? kDlpackFlagIsCopied : 0;
  return tensor;
}

}  // namespace damacy
