// Objects behind HTTP(S), read by range requests: which objects there are, and what a listing has. The first answer
// fixes the version of an object (`http_object` reads it). Network threads carry the transfers; the thread that reads
// waits, and repeats what fails (`origin`). Knows of services only what `service` says.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "damacy/store/http/http_settings.h"
#include "damacy/store/http/service.h"
#include "damacy/store/store.h"
#include "damacy/store/store_options.h"

namespace damacy::http {

// Throws Error(inval, "uri") unless `uri` is http(s)://HOST[:PORT][/PATH], percent-encoded, without user info, query
// and fragment.
void check_http_uri(std::string_view uri);

// The objects of a service; `name` is what errors call the store. Requests are made as by make_http_store(), without
// `headers` and `absent_status`.
[[nodiscard]] std::shared_ptr<Store> make_service_store(std::string name, std::shared_ptr<Service> service,
                                                        const HttpSettings& settings = {});

// Keys are percent-encoded and appended to the path of `uri`. An object is absent if the server answers with one of
// `absent_status`. Plain HTTP has no listings: list() is always empty. Reads throw Error(io) with the reasons denied,
// changed, range, encoded, no-validator, redirect, throttled, http, deadline, dns, connect, tls, io; without a libcurl
// Error(inval, "no-http").
[[nodiscard]] std::shared_ptr<Store> make_http_store(std::string_view uri, const HttpSettings& settings = {});

// Throws Error(inval, "options") for options that only S3 has, and for secrets that would go over plain http to another
// machine.
[[nodiscard]] std::shared_ptr<Store> make_http_store(std::string_view uri, const StoreOptions& options,
                                                     const StoreUse& use = {});

// One object, which has any key. `url` may have a query, which is a secret.
[[nodiscard]] std::shared_ptr<Store> make_url_store(std::string_view url, const StoreOptions& options,
                                                    const StoreUse& use = {});

}  // namespace damacy::http
