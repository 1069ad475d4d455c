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
  const auto take = [&](const char* name, auto& field) {
    field = nb::cast<std::remove_reference_t<decltype(field)>>(fields[name]);
  };
  take("endpoint", options.endpoint);
  take("region", options.region);
  take("addressing", options.addressing);
  take("anonymous", options.anonymous);
  if (const nb::object callable = fields["credentials"]; !callable.is_none())
    options.credentials = credentials_of(callable);
  take("profile", options.profile);
  take("access_key_id", options.access_key_id);
  take("secret_access_key", options.secret_access_key);
  take("session_token", options.session_token);
  take("bearer_token", options.bearer_token);
  take("request_payer", options.request_payer);
  take("headers", options.headers);
  take("absent_status", options.absent_status);
  take("proxy", options.proxy);
  take("ca_file", options.ca_file);
  take("connect_timeout_s", options.connect_timeout_s);
  take("stall_timeout_s", options.stall_timeout_s);
  take("deadline_s", options.deadline_s);
  take("first_byte_timeout_s", options.first_byte_timeout_s);
  take("attempts", options.attempts);
  take("max_requests", options.max_requests);
  take("redirects", options.redirects);
  take("request_bytes", options.request_bytes);
  take("gap_bytes", options.gap_bytes);
  take("hedge", options.hedge);
  take("revalidate_s", options.revalidate_s);
  take("immutable", options.immutable);
  take("allow_unversioned", options.allow_unversioned);
  return options;
}

}  // namespace damacy::python
