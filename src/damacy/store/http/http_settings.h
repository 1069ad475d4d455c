// The settings of HTTP that options of a store ask for. Knows both; makes no store.
#pragma once

#include <string_view>

#include "damacy/store/http/http_store.h"
#include "damacy/store/store_options.h"

namespace damacy::http {

// With the headers, and the bearer token as one of them.
[[nodiscard]] HttpSettings settings_of(const StoreOptions& options);

// Whether HOST[:PORT] names this machine: secrets go over plain http only there.
[[nodiscard]] bool is_loopback(std::string_view host);

// The objects below an http(s) uri. Throws Error(inval, "options") for options that only S3 has, and for secrets that
// would go over plain http to another machine.
[[nodiscard]] std::shared_ptr<Store> make_http_store(std::string_view uri, const StoreOptions& options);

}  // namespace damacy::http
