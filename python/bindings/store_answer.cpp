#include "store_answer.h"

#include <memory>
#include <span>

#include "buffer_view.h"
#include "python_gate.h"

namespace damacy::python {
namespace {

// A view that any thread may drop. When Python has ended its memory has ended, too.
std::shared_ptr<BufferView> view_of(nb::handle buffer) {
  return {new BufferView(buffer, PyBUF_SIMPLE), [](BufferView* view) {
            const InPython inside;
            if (inside) delete view;
          }};
}

}  // namespace

void PythonAnswer::found_object(std::uint64_t size, std::string tag, std::int64_t modified_ns, nb::object head) {
  BufferView view;
  if (!head.is_none() && !view.take(head, PyBUF_SIMPLE)) throw nb::python_error();
  std::span<const std::byte> bytes;
  if (view->obj != nullptr) bytes = view.bytes();
  found({size, std::move(tag), modified_ns}, bytes);
}

void PythonAnswer::buffer(nb::object buffer) {
  const auto view = view_of(buffer);
  bytes({view->bytes(), view});
}

void PythonAnswer::names(const std::vector<std::pair<std::string, bool>>& found) {
  std::vector<Entry> all;
  for (const auto& [name, is_directory] : found) all.push_back({name, is_directory});
  entries(std::move(all));
}

void PythonAnswer::failed(const std::string& message, const std::string& reason, std::optional<int> number,
                          nb::object cause) {
  Error failure(Status::io, message, reason);
  if (number) failure.with_errno(*number);
  if (!cause.is_none()) failure.with_cause(shared_object(cause));
  fail(failure);
}

void PythonAnswer::set_request(nb::object request) {
  if (is_settled() || request.is_none()) return;
  request_ = request.release().ptr();
}

void PythonAnswer::settled() noexcept {
  Py_CLEAR(request_);
}

void PythonAnswer::cancel() noexcept {
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

}  // namespace damacy::python
