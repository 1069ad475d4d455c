#include "damacy/batch/batch.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "damacy/batch/slots.h"
#include "damacy/core/error.h"
#include "damacy/core/fork.h"
#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"
#include "damacy/device/device.h"
#include "damacy/device/dlpack_abi.h"

namespace damacy {
namespace {

// The owner behind a tensor made from a batch: the slot, or a copy, and its shape.
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

// A copy of the batch after its consumers' queued work; complete on return.
HostBuffer copy_of(const std::shared_ptr<Device>& device, const SlotLoan& loan, std::span<std::byte> bytes,
                   bool to_host) {
  const bool on_host = !device || to_host;
  HostBuffer copy(on_host ? std::make_shared<PageAlloc>() : device->device_memory(),
                  std::max<std::size_t>(bytes.size(), 1));
  if (!device) {
    std::memcpy(copy.data(), bytes.data(), bytes.size());
    return copy;
  }
  const auto stream = device->make_stream();
  loan.order_after_consumers(*device, *stream);
  stream->copy(copy.bytes().first(bytes.size()), bytes);
  stream->record().wait();
  return copy;
}

template <class Managed>
Managed* make_tensor(const BatchInfo& info, DlDevice where, std::shared_ptr<SlotLoan> loan, HostBuffer copy) {
  auto made = std::make_unique<ManagedExport<Managed>>();
  std::int64_t stride = 1;
  for (std::size_t i = info.shape.size(); i-- > 0;) {
    made->owned.shape[i] = info.shape[i];
    made->owned.strides[i] = stride;
    stride *= info.shape[i];
  }
  made->owned.copy = std::move(copy);
  auto* data =
      made->owned.copy.data() != nullptr ? made->owned.copy.data() : reinterpret_cast<std::byte*>(info.device_ptr);
  made->owned.loan = std::move(loan);
  made->tensor.dl_tensor = {data,
                            {where.type, where.index},
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
  std::vector<NamedInfo> arrays;
  std::shared_ptr<Device> device;  // null: the host
  std::vector<bool> valid;
  std::vector<std::int64_t> sample_indices;
  std::vector<std::shared_ptr<const void>> origins;
  mutable Mutex mutex;
  std::shared_ptr<SlotLoan> loan DAMACY_GUARDED_BY(mutex);  // null: released
  std::uint64_t epoch = fork_epoch();

  const BatchInfo& info_of(std::optional<std::string_view> array) const;
  std::span<std::byte> bytes(const BatchInfo& info) const {
    return {reinterpret_cast<std::byte*>(info.device_ptr),
            static_cast<std::size_t>(*product(info.shape.span())) * size_of(info.dtype)};
  }
  template <class Managed>
  Managed* to_tensor(const Export& how) const;

  void check_not_forked() const {
    if (epoch != fork_epoch())
      throw Error(Status::shutdown, "the batch belongs to the parent process", "forked").in_stage("forked");
  }
  std::shared_ptr<SlotLoan> held() const {
    check_not_forked();
    const Lock lock(mutex);
    if (!loan)
      throw Error(Status::inval, "the batch was released", "arguments")
          .in_stage("release")
          .at_batch(arrays.front().info.batch_id, {});
    return loan;
  }
};

const BatchInfo& Batch::State::info_of(std::optional<std::string_view> array) const {
  if (!array && arrays.size() == 1) return arrays.front().info;
  std::string names;
  for (const auto& [name, info] : arrays) {
    if (array == name) return info;
    names += formatted("{}'{}'", names.empty() ? "" : ", ", name);
  }
  throw Error(Status::inval,
              array ? formatted("no array '{}'; there are {}", *array, names)
                    : formatted("a batch of several arrays: {}; say which", names),
              "names")
      .at_batch(arrays.front().info.batch_id, {});
}

Batch::Batch(std::vector<NamedInfo> arrays, std::shared_ptr<Device> device, std::shared_ptr<SlotLoan> loan,
             std::vector<bool> valid, std::vector<std::int64_t> sample_indices,
             std::vector<std::shared_ptr<const void>> origins)
    : state_(std::make_unique<State>()) {
  state_->arrays = std::move(arrays);
  state_->loan = std::move(loan);
  state_->device = std::move(device);
  state_->valid = std::move(valid);
  state_->sample_indices = std::move(sample_indices);
  state_->origins = std::move(origins);
}
Batch::Batch(Batch&&) noexcept = default;
Batch& Batch::operator=(Batch&&) noexcept = default;
Batch::~Batch() {
  if (state_ && state_->epoch != fork_epoch())
    static_cast<void>(state_.release());  // the parent's: leak, touch nothing
}

BatchInfo Batch::info(std::optional<std::string_view> array) const {
  const auto held = state_->held();
  return state_->info_of(array);
}
std::vector<std::string> Batch::names() const {
  std::vector<std::string> names;
  for (const NamedInfo& array : state_->arrays)
    if (!array.name.empty()) names.push_back(array.name);
  return names;
}
std::int64_t Batch::batch_id() const noexcept {
  return state_->arrays.front().info.batch_id;
}
const std::vector<bool>& Batch::valid() const {
  state_->check_not_forked();
  return state_->valid;
}
const std::vector<std::int64_t>& Batch::sample_indices() const {
  state_->check_not_forked();
  return state_->sample_indices;
}
const std::vector<std::shared_ptr<const void>>& Batch::origins() const {
  state_->check_not_forked();
  return state_->origins;
}
DlDevice Batch::device() const {
  const auto held = state_->held();
  return state_->device ? DlDevice{kDlpackCuda, state_->device->index()} : DlDevice{};
}

bool Batch::on_host() const noexcept {
  return state_->device == nullptr;
}

bool Batch::released() const {
  const Lock lock(state_->mutex);
  return !state_->loan;
}

void Batch::check_type(const BatchInfo& info, Dtype wanted) {
  if (info.dtype == wanted) return;
  throw Error(Status::dtype, formatted("the elements are {}, not {}", name_of(info.dtype), name_of(wanted)), "dtype")
      .at_batch(info.batch_id, {});
}

std::span<const std::byte> Batch::bytes(std::optional<std::string_view> array) const {
  const auto held = state_->held();
  return state_->bytes(state_->info_of(array));
}

void Batch::release(std::optional<std::uint64_t> stream) noexcept {
  if (state_->epoch != fork_epoch()) return;
  std::shared_ptr<SlotLoan> dropped;  // after the lock: the loan's end calls the pipeline
  const Lock lock(state_->mutex);
  dropped.swap(state_->loan);
  if (!dropped || !stream || !state_->device) return;
  try {
    auto queued = *stream == kAnyStream ? std::nullopt : state_->device->try_fence(*stream);
    if (queued)
      dropped->used_until(std::move(*queued));
    else
      dropped->used_on_some_stream(/*in_capture=*/*stream != kAnyStream);
  } catch (...) {  // no such stream, or the device is lost: all work of the context stands for it
    dropped->used_on_some_stream();
  }
}

void Batch::release_after(Event last_use) noexcept {
  if (state_->epoch != fork_epoch()) return;
  std::shared_ptr<SlotLoan> dropped;
  const Lock lock(state_->mutex);
  dropped.swap(state_->loan);
  if (dropped) dropped->used_until(std::move(last_use));
}

// The owner of a tensor's memory: the slot, whose next writer waits for the consumer's stream, or a copy.
template <class Managed>
Managed* Batch::State::to_tensor(const Export& how) const try {
  auto held_loan = held();
  const BatchInfo& info = info_of(how.array);
  const DlDevice own = device ? DlDevice{kDlpackCuda, device->index()} : DlDevice{};
  if (how.copy || (how.to_host && device))
    return make_tensor<Managed>(info, how.to_host ? DlDevice{} : own, nullptr,
                                copy_of(device, *held_loan, bytes(info), how.to_host));
  if (device && how.stream.value_or(0) <= 1)
    held_loan->used_on_legacy_stream();
  else if (device)
    held_loan->used_on_some_stream();
  return make_tensor<Managed>(info, own, std::move(held_loan), {});
} catch (const std::bad_alloc&) {
  throw current_error();
}

DLManagedTensor* Batch::to_dlpack(const Export& how) const {
  return state_->to_tensor<DLManagedTensor>(how);
}

DLManagedTensorVersioned* Batch::to_dlpack_versioned(const Export& how) const {
  auto* tensor = state_->to_tensor<DLManagedTensorVersioned>(how);
  tensor->version = {1, 0};
  tensor->flags = how.copy || how.to_host ? kDlpackFlagIsCopied : 0;
  return tensor;
}

}  // namespace damacy
