#include "remote_options.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <tuple>
#include <type_traits>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "damacy/core/formatted.h"
#include "damacy/store/store_fields.h"
#include "python_gate.h"

namespace damacy::python {
namespace {

// A callable of Python as the library calls it, on a thread that reads.
std::function<Credentials()> credentials_of(nb::object callable) {
  return [callable = shared_object(callable)]() -> Credentials {
    Credentials found;
    std::string failure;
    {
      // The exit of Python does not wait for this thread, as it would for one InPython: the callable may never return.
      // Who waits for the thread goes away at its deadline.
      if (gate().is_closed()) throw python_ends();
      const GilAcquire locked;
      const NoUnwind stays;
      gate().drop_now();
      try {
        const nb::object given = nb::handle(callable.get())();
        if (nb::isinstance<nb::str>(given)) {
          failure = nb::cast<std::string>(given);
        } else {
          const auto [key, secret, token, bearer, expires] =
              nb::cast<std::tuple<std::string, std::string, std::string, std::string, std::int64_t>>(given);
          found = {key, secret, token, bearer, expires == 0 ? std::nullopt : std::optional(expires)};
        }
      } catch (nb::python_error& error) {
        const nb::str type(error.type().attr("__name__"));  // its text may hold secrets
        failure = formatted("the credentials callable failed: {}", type.c_str());
      } catch (const nb::cast_error&) {
        failure = "the credentials callable gave something else than credentials";
      }
    }
    if (!failure.empty()) throw Error(Status::io, failure, "credentials");
    return found;
  };
}

}  // namespace

std::string certifi_file() {
  const InPython inside;
  if (!inside) return {};
  const NoUnwind stays;
  try {
    return nb::cast<std::string>(nb::module_::import_("certifi").attr("where")());
  } catch (nb::python_error&) {
  } catch (const nb::cast_error&) {
  }
  return {};
}

StoreOptions store_options_of(const nb::dict& fields) {
  StoreOptions options;
  for_store_fields([&](const auto& field) {
    auto& value = options.*field.member;
    using Value = std::remove_reference_t<decltype(value)>;
    const nb::object given = fields[nb::str(field.name.data(), field.name.size())];
    if constexpr (!std::is_same_v<Value, std::function<Credentials()>>)
      value = nb::cast<Value>(given);
    else if (!given.is_none())
      value = credentials_of(given);
  });
  return options;
}

}  // namespace damacy::python
