// The answer of a store of Python to one question, which Python fills with the GIL. Knows Python's objects; not who
// asks, nor for what.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "damacy/store/asked_store.h"

namespace damacy::python {

class PythonAnswer final : public StoreAnswer {
 public:
  // -- Python, as StoreAnswer
  void found_object(std::uint64_t size, std::string tag, std::int64_t modified_ns, nb::object head);
  void buffer(nb::object buffer);
  void names(const std::vector<std::pair<std::string, bool>>& found);
  void failed(const std::string& message, const std::string& reason, std::optional<int> number, nb::object cause);

  // With the GIL, after the question was put: what has cancel(), or None.
  void set_request(nb::object request);

 private:
  void settled() noexcept override;
  void cancel() noexcept override;

  PyObject* request_ = nullptr;  // the GIL guards it
};

}  // namespace damacy::python
