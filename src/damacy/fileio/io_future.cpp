#include "damacy/fileio/operation.h"

#include "damacy/core/error.h"
#include "damacy/device/device.h"

namespace damacy {

bool IOFuture::wait(std::optional<std::chrono::nanoseconds> timeout) const {
  return operation_ == nullptr || operation_->wait(timeout);
}

void IOFuture::check() const {
  if (operation_->cancelled()) throw Error(Status::shutdown, "the operation was cancelled", "cancelled");
  if (const auto error = operation_->error()) std::rethrow_exception(error);
}

std::uint64_t IOFuture::get() const {
  if (operation_ == nullptr) return count_;
  operation_->wait(std::nullopt);
  check();
  return operation_->count();
}

bool IOFuture::cancel() const {
  return operation_ != nullptr && operation_->drop_rest(/*as_cancelled=*/true);
}

std::vector<std::uint64_t> IOFuture::counts() const {
  const std::uint64_t count = get();
  return operation_ == nullptr ? std::vector{count} : operation_->counts();
}

std::uint64_t IOFuture::wait_stream(std::uint64_t stream) const {
  if (operation_ == nullptr) return count_;
  operation_->wait_parts(std::nullopt);
  check();
  for (const Event& event : operation_->copies())
    for (const auto& device : devices_) device->make_wait(stream, event);
  return operation_->count();
}

void IOFuture::when_done(std::function<void()> call) const {
  if (operation_ == nullptr)
    call();
  else
    operation_->when_done(std::move(call));
}

}  // namespace damacy
