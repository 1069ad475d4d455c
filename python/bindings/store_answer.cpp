#include "store_answer.h"

#include <cstring>

#include "damacy/store/storage_watch.h"

namespace damacy::python {

template <class Set>
void StoreAnswer::finish(Set set) {
  {
    const Lock lock(mutex_);
    if (done_ || left_) return;
    set();
    done_ = true;
    changed_.notify_all();
  }
  Py_CLEAR(request_);
}

void StoreAnswer::absent() {
  finish([] {});
}

void StoreAnswer::found(std::uint64_t size, std::string tag, std::int64_t modified_ns, nb::object head) {
  BufferView view;
  if (!head.is_none() && !view.take(head, PyBUF_SIMPLE)) throw nb::python_error();
  finish([&] {
    found_ = {size, std::move(tag), modified_ns};
    is_found_ = true;
    if (view->obj != nullptr) head_.assign(view.bytes().begin(), view.bytes().end());
  });
}

void StoreAnswer::bytes(nb::object buffer) {
  auto view = std::make_unique<BufferView>(buffer, PyBUF_SIMPLE);
  finish([&] { view_ = std::move(view); });
}

void StoreAnswer::entries(const std::vector<std::pair<std::string, bool>>& found) {
  finish([&] {
    for (const auto& [name, is_directory] : found) entries_.push_back({name, is_directory});
  });
}

void StoreAnswer::fail(const std::string& message, const std::string& reason, std::optional<int> number,
                       nb::object cause) {
  Error failure(Status::io, message, reason);
  if (number) failure.with_errno(*number);
  if (!cause.is_none()) failure.with_cause(shared_object(cause));
  finish([&] { failure_ = failure; });
}

void StoreAnswer::set_request(nb::object request) {
  {
    const Lock lock(mutex_);
    if (done_ || request.is_none()) return;
  }
  request_ = request.release().ptr();
}

void StoreAnswer::wait() {
  constexpr auto kLook = std::chrono::milliseconds(50);
  while (!done_within(kLook)) {
    const StorageWatch* const watch = StorageWatch::current();
    const bool is_abandoned = watch != nullptr && watch->abandoned();
    const bool is_cancelled = watch != nullptr && watch->remote_is_cancelled();
    if (!is_abandoned && !is_cancelled && !gate().is_closed()) continue;
    cancel();
    if (is_abandoned) throw Error(Status::io, "the store did not answer in time", "deadline");
    if (is_cancelled) throw Error(Status::shutdown, "the request was cancelled: its pipeline was closed", "closed");
    throw python_ends();
  }
  if (failure_) throw *failure_;
}

std::optional<std::size_t> StoreAnswer::take_bytes(std::span<std::byte> dst) {
  if (!view_) return std::nullopt;
  const std::span<const std::byte> from = view_->bytes();
  const std::size_t size = from.size();
  if (size == dst.size() && size > 0) std::memcpy(dst.data(), from.data(), size);
  drop_view();
  return size;
}

bool StoreAnswer::done_within(std::chrono::milliseconds most) {
  Lock lock(mutex_);
  return changed_.wait_for(lock, most, [this]() DAMACY_REQUIRES(mutex_) { return done_; });
}

void StoreAnswer::cancel() {
  {
    const Lock lock(mutex_);
    left_ = true;
  }
  const InPython inside;
  if (!inside || request_ == nullptr) return;
  const NoUnwind stays;
  const nb::object request = nb::steal(std::exchange(request_, nullptr));
  try {
    request.attr("cancel")();
  } catch (nb::python_error& error) {
    error.discard_as_unraisable("cancelling a request of a store");
  }
}

void StoreAnswer::drop_view() {
  if (!view_) return;
  const InPython inside;
  if (inside) view_.reset();
  static_cast<void>(view_.release());  // else Python has ended, and its memory with it
}

}  // namespace damacy::python
