#include "damacy/store/http/plain_service.h"

#include <algorithm>
#include <utility>

#include "damacy/core/formatted.h"

namespace damacy::http {
namespace {

std::string encoded(std::string_view key) {
  constexpr std::string_view kUnreserved = "-._~/";
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter || kUnreserved.find(c) != kUnreserved.npos)
      out += c;
    else
      out += {'%', kHex[byte >> 4], kHex[byte & 15]};
  }
  return out;
}

class PlainService final : public Service {
 public:
  PlainService(std::string root, const HttpSettings& settings, bool is_one_object)
      : root_(std::move(root)),
        headers_(settings.headers),
        absent_status_(settings.absent_status),
        is_one_object_(is_one_object) {}

  Address address(std::string_view key, Time) override {
    return {is_one_object_ ? root_ : formatted("{}/{}", root_, encoded(key)), headers_};
  }

  std::optional<Failure> refused(std::string_view, const Head& head, std::string_view, bool known,
                                 Failure usual) override {
    const bool is_absent = std::find(absent_status_.begin(), absent_status_.end(), head.status) != absent_status_.end();
    if (is_absent && !known) return std::nullopt;
    return usual;
  }

 private:
  const std::string root_;
  const std::vector<std::string> headers_;
  const std::vector<int> absent_status_;
  const bool is_one_object_;  // at `root_`
};

}  // namespace

std::shared_ptr<Service> make_plain_service(std::string root, const HttpSettings& settings) {
  return std::make_shared<PlainService>(std::move(root), settings, /*is_one_object=*/false);
}

std::shared_ptr<Service> make_url_service(std::string url, const HttpSettings& settings) {
  return std::make_shared<PlainService>(std::move(url), settings, /*is_one_object=*/true);
}

}  // namespace damacy::http
