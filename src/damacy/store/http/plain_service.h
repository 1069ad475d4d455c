// Plain HTTP: keys are percent-encoded and appended to a uri. No identity, no listings.
#pragma once

#include <memory>
#include <string>

#include "damacy/store/http/http_settings.h"
#include "damacy/store/http/service.h"

namespace damacy::http {

// `root`: a uri without '/' at its end. Of the settings it has `headers` and `absent_status`.
[[nodiscard]] std::shared_ptr<Service> make_plain_service(std::string root, const HttpSettings& settings);

// One object, whatever its key is called. `url` may have a query, which is a secret, as that of a presigned url.
[[nodiscard]] std::shared_ptr<Service> make_url_service(std::string url, const HttpSettings& settings);

}  // namespace damacy::http
