#include "damacy/store/s3/s3_store.h"

#include <atomic>
#include <map>

#include "damacy/core/error.h"
#include "damacy/core/fork.h"
#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "damacy/core/log.h"
#include "damacy/core/mutex.h"
#include "damacy/store/http/http_settings.h"
#include "damacy/store/http/http_store.h"
#include "damacy/store/http/redirect.h"
#include "damacy/store/http/times.h"
#include "damacy/store/s3/credentials.h"
#include "damacy/store/s3/environment.h"
#include "damacy/store/s3/exchange.h"
#include "damacy/store/s3/sigv4.h"
#include "damacy/store/s3/xml.h"

namespace damacy::s3 {
namespace {

using http::Address;
using http::Failure;
using http::Head;

constexpr std::string_view kUsualRegion = "us-east-1";
constexpr std::string_view kGoogle = "https://storage.googleapis.com";

[[noreturn]] void refuse(std::string_view uri, std::string_view why) {
  throw Error(Status::inval, std::string(why), "uri").at_uri(without_secrets(uri));
}

struct Place {
  bool is_google = false;
  std::string bucket, path;  // the path without '/' at its ends
};

Place place_of(std::string_view uri) {
  if (!is_bucket_uri(uri)) refuse(uri, "the uri is not s3://BUCKET/PATH or gs://BUCKET/PATH");
  if (uri.size() >= Limits::uri_bytes) refuse(uri, formatted("is not shorter than {} bytes", Limits::uri_bytes));
  const std::string_view rest = uri.substr(uri.find("://") + 3);
  const std::string_view bucket = rest.substr(0, rest.find('/'));
  std::string_view path = bucket.size() == rest.size() ? std::string_view() : rest.substr(bucket.size() + 1);
  while (path.ends_with('/')) path.remove_suffix(1);
  if (bucket.size() < 3 || bucket.size() > 255) refuse(uri, "the name of a bucket has 3 to 255 characters");
  for (const char c : bucket) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!is_letter && c != '-' && c != '.' && c != '_')
      refuse(uri, "the name of the bucket holds another character than letters, digits, '-', '.' and '_'");
  }
  if (bucket.find("..") != bucket.npos || bucket.front() == '.')
    refuse(uri, "the name of the bucket has a misplaced dot");
  if (!path.empty()) {
    try {
      check_key(path);
    } catch (const Error& e) {
      refuse(uri, formatted("the path in the bucket is {}", e.message()));
    }
  }
  return {scheme_of_uri(uri) == "gs", std::string(bucket), std::string(path)};
}

// What the options must not hold for buckets of Google Cloud Storage, or for any bucket.
void check_fields(const StoreOptions& options, bool is_google) {
  const auto refuse_if = [&](bool is_set, std::string_view field, std::string_view others) {
    if (is_set)
      throw Error(Status::inval,
                  formatted("StoreOptions.{}: only for {}, not for {}", field, others, is_google ? "gs" : "s3"),
                  "options");
  };
  refuse_if(!options.headers.empty(), "headers", "http(s)");
  refuse_if(options.redirects != 0, "redirects", "http(s)");
  refuse_if(is_google && options.profile, "profile", "s3");
  refuse_if(is_google && options.request_payer, "request_payer", "s3");
}

std::string lower(std::string_view value) {
  std::string out(value);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

// http(s)://HOST[:PORT][/PATH].
struct Endpoint {
  std::string scheme, host, path;

  explicit Endpoint(std::string_view url) {
    const std::size_t begin = url.find("://") + 3;
    scheme = lower(url.substr(0, begin - 3));
    const std::size_t slash = std::min(url.find('/', begin), url.size());
    host = lower(url.substr(begin, slash - begin));
    path = url.substr(slash);
    while (path.ends_with('/')) path.pop_back();
    // As libcurl writes it into the header, which is signed.
    const std::string_view usual = scheme == "https" ? ":443" : ":80";
    if (host.ends_with(usual)) host.resize(host.size() - usual.size());
  }
};

bool is_document(std::string_view key) {
  const std::string_view name = key.substr(key.rfind('/') + 1);
  return name == "zarr.json" || name == ".zarray" || name == ".zgroup" || name == ".zattrs" || name == ".zmetadata";
}

// Keys of the other documents of which an array or a group has one.
std::vector<std::string> documents_beside(std::string_view key) {
  std::vector<std::string> others;
  const std::string_view folder = key.substr(0, key.rfind('/') + 1);
  for (const std::string_view name : {".zarray", ".zgroup", "zarr.json"})
    if (key.substr(folder.size()) != name) others.push_back(formatted("{}{}", folder, name));
  return others;
}

bool holds(const std::vector<int>& statuses, int status) {
  return std::find(statuses.begin(), statuses.end(), status) != statuses.end();
}

}  // namespace

// Where a bucket is; empty: not known yet.
class Region {
 public:
  explicit Region(const std::string& value) : value_(value) {}
  std::string value() {
    const Lock lock(mutex_);
    return value_;
  }
  // Unless another thread found it before. The one that counts.
  std::string found(const std::string& value) {
    const Lock lock(mutex_);
    if (value_.empty()) value_ = value;
    return value_;
  }
  std::string replace(std::string value) {  // what it was
    const Lock lock(mutex_);
    std::swap(value_, value);
    return value;
  }

 private:
  Mutex mutex_;
  std::string value_ DAMACY_GUARDED_BY(mutex_);
};

// What is known of a bucket: where it is, and who asks. Its keys are those from the bucket's root on.
class Bucket {
 public:
  Bucket(std::string name, bool is_google, const StoreOptions& options)
      : name_(std::move(name)),
        is_google_(is_google),
        options_(options),
        settings_(settings_of(options)),
        profile_(is_google ? Profile() : read_profile(options.profile)),
        region_(options.region.value_or(is_google ? "auto" : usual_region(profile_))) {
    check_fields(options, is_google);
    const auto endpoint = [&]() -> std::optional<std::string> {
      if (options.endpoint) return options.endpoint;
      if (is_google) return std::string(kGoogle);
      if (const auto url = environment("AWS_ENDPOINT_URL_S3")) return url;
      if (const auto url = environment("AWS_ENDPOINT_URL")) return url;
      return profile_.find("endpoint_url");
    }();
    if (endpoint) {
      StoreOptions checked;
      checked.endpoint = endpoint;
      check(checked);
      endpoint_.emplace(*endpoint);
    }
    if (options.bearer_token && endpoint_ && !http::keeps_secrets(this->endpoint(), options.proxy.value_or("")))
      throw Error(Status::inval,
                  "StoreOptions.bearer_token: goes over http only to this machine: use an https endpoint", "options");
    std::string addressing = options.addressing;
    if (addressing == "auto") addressing = profile_.find("s3.addressing_style").value_or("auto");
    is_path_ = addressing == "path" || (addressing != "virtual" && (endpoint_ || name_.find('.') != name_.npos));
    settings_.is_aws = !is_google;
    if (options.hedge == "auto") settings_.hedge = is_google ? !options.endpoint : !endpoint;
    credentials_ =
        is_google ? make_google_credential_source(options) : make_credential_source(options, settings_, profile_);
  }

  const http::HttpSettings& settings() const { return settings_; }
  // Buckets of the same name are others behind another endpoint.
  std::string endpoint() const {
    return endpoint_ ? formatted("{}://{}{}", endpoint_->scheme, endpoint_->host, endpoint_->path) : std::string();
  }

  bool is_ready() { return credentials_->is_ready(); }
  // Signed, if there are credentials. `query` as query_text() makes it.
  Address request(std::string_view key, std::string_view query, http::Service::Time end) {
    const auto keys = credentials_->current(end);
    const std::string region = this->region();
    log_use(keys.has_value(), region);
    const Where where = where_is(key, region);
    Address address{formatted("{}://{}{}{}{}", where.scheme, where.host, where.path, query.empty() ? "" : "?", query),
                    {}};
    if (!keys) return address;
    if (!keys->bearer_token.empty()) {
      if (!http::keeps_secrets(address.url, settings_.proxy.value_or("")))
        throw Error(Status::io,
                    "the bearer token of the credentials callable goes over http only to this machine: use an https "
                    "endpoint",
                    "credentials");
      address.headers.push_back(formatted("Authorization: Bearer {}", keys->bearer_token));
      return address;
    }
    const std::int64_t now = http::unix_now() + clock_offset_s_.load();
    Fields headers{{"x-amz-content-sha256", std::string(kEmptyBodySha256)}, {"x-amz-date", amz_date(now)}};
    if (options_.request_payer) headers.emplace_back("x-amz-request-payer", "requester");
    if (!keys->session_token.empty()) headers.emplace_back("x-amz-security-token", keys->session_token);
    for (const auto& [name, value] : headers) address.headers.push_back(formatted("{}: {}", name, value));
    headers.emplace_back("host", where.host);
    const ToSign to_sign{"GET", where.path, query, headers, kEmptyBodySha256};
    address.headers.push_back(
        formatted("Authorization: {}",
                  authorization(to_sign, {keys->access_key_id, keys->secret_access_key, {}}, {region, "s3", now})));
    return address;
  }

  // As http::Service::refused().
  std::optional<Failure> refused(std::string_view key, const Head& head, std::string_view body, bool known,
                                 Failure usual) {
    const ErrorBody error = parse_error(body);
    const std::string status = http::status_text(head, error.code);
    if (auto again = corrected(head, error, body)) return again;
    if (head.status == 404 && error.code == "NoSuchBucket")
      return Failure{"http", formatted("{}: there is no bucket {}", status, name_), false};
    const bool may_be_absent = !known && holds(options_.absent_status, head.status);
    if (may_be_absent && head.status != 403) return std::nullopt;
    if (may_be_absent && is_answer_to_absent_key(error, body)) {
      if (is_document(key)) return denied_document(status, key);
      if (!warned_.exchange(true))
        log(LogLevel::warn, formatted("{}: denied chunks are read as absent, because absent_status holds 403", uri()));
      return std::nullopt;
    }
    if (head.status == 401 || head.status == 403 || is_refused_token(error.code))
      return Failure{"denied", formatted("{}: {}", status, why_denied(error, body)), false};
    if (head.status == 301 || head.status == 307) {
      const std::string where = error.endpoint.empty() ? http::shown_location(head.location) : error.endpoint;
      return Failure{
          "redirect",
          formatted("{}: the bucket is to be asked {}", status,
                    where.empty() ? std::string("elsewhere") : formatted("at {} (StoreOptions.endpoint)", where)),
          false};
    }
    if (error.code == "RequestTimeout" || error.code == "InternalError") return Failure{"http", status, true};
    if (error.code == "SlowDown") return Failure{"throttled", status, true};
    if (!error.code.empty() && usual.reason == std::string_view("http") && !usual.again)
      return Failure{"http", error.message.empty() ? status : formatted("{}: {}", status, error.message), false};
    return usual;
  }

 private:
  struct Where {
    std::string scheme, host, path;
  };

  std::string uri() const { return formatted("{}://{}", is_google_ ? "gs" : "s3", name_); }

  static std::string usual_region(const Profile& profile) {
    if (const auto region = environment("AWS_REGION")) return *region;
    if (const auto region = environment("AWS_DEFAULT_REGION")) return *region;
    return profile.find("region").value_or("");
  }

  Where where_is(std::string_view key, std::string_view region) const {
    const std::string below = key.empty() ? std::string() : formatted("/{}", percent_encoded(key, true));
    Endpoint endpoint = endpoint_ ? *endpoint_ : aws_endpoint(region);
    if (!is_path_)
      return {endpoint.scheme, formatted("{}.{}", lower(name_), endpoint.host),
              formatted("{}{}", endpoint.path, below.empty() ? "/" : below)};
    return {endpoint.scheme, endpoint.host, formatted("{}/{}{}", endpoint.path, name_, below)};
  }

  static Endpoint aws_endpoint(std::string_view region) {
    const std::string_view domain = region.starts_with("cn-") ? "amazonaws.com.cn" : "amazonaws.com";
    return Endpoint(formatted("https://s3.{}.{}", region, domain));
  }

  // Asks for the region of the bucket if nothing says it: that needs no permission.
  std::string region() {
    if (std::string known = region_.get().value(); !known.empty()) return known;
    const Where where = where_is("", kUsualRegion);
    const Reply reply = exchange({"HEAD", formatted("{}://{}{}", where.scheme, where.host, where.path)}, settings_,
                                 settings_.connect_timeout);
    const std::string found =
        is_region(reply.head.bucket_region) ? reply.head.bucket_region : std::string(kUsualRegion);
    if (reply.head.status == 0) return found;  // the request that follows says what is wrong
    return region_.get().found(found);
  }

  static bool is_region(std::string_view value) {
    return !value.empty() && value.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == value.npos;
  }

  static bool is_refused_token(std::string_view code) {
    return code == "ExpiredToken" || code == "InvalidToken" || code == "TokenRefreshRequired";
  }

  // Another attempt, where the answer says what to do better: region, clock or credentials.
  std::optional<Failure> corrected(const Head& head, const ErrorBody& error, std::string_view body) {
    const std::string status = http::status_text(head, error.code);
    const std::string& region = error.region.empty() ? head.bucket_region : error.region;
    const bool is_elsewhere = head.status == 301 || head.status == 307 || error.code == "AuthorizationHeaderMalformed";
    if (is_elsewhere && is_region(region)) {
      if (const std::string before = region_.get().replace(region); before != region)
        log(LogLevel::info, formatted("{}: the region is {}, not {}", uri(), region, before));
      return Failure{"redirect", formatted("{}: the bucket is in the region {}", status, region), true,
                     http::Once::region, true};
    }
    if (error.code == "RequestTimeTooSkewed") {
      const auto server = http::parse_http_date(head.date);
      if (!server) return std::nullopt;
      clock_offset_s_ = *server - http::unix_now();
      return Failure{"denied", formatted("{}: the clock differs from the server's", status), true, http::Once::clock,
                     true};
    }
    const auto used = is_refused_token(error.code) || head.status == 401 || error.code == "AccessDenied"
                          ? credentials_->last()
                          : std::nullopt;
    if (!used) return std::nullopt;
    if (error.code == "AccessDenied" && !is_late(*used)) return std::nullopt;
    if (!credentials_->renew(*used)) return std::nullopt;
    return Failure{"denied", formatted("{}: {}", status, why_denied(error, body)), true, http::Once::credentials, true};
  }

  // Of an answer 403: whether S3 gives it to callers that may not list the bucket, for keys that it does not have.
  // Other codes are of keys and clocks. A caller whose credentials are missing or late is denied everything.
  bool is_answer_to_absent_key(const ErrorBody& error, std::string_view body) {
    const auto used = credentials_->last();
    const bool may_ask = used ? !is_late(*used) : credentials_->is_anonymous();
    return may_ask && (body.empty() || error.code == "AccessDenied");
  }

  // Arrays of version 2 have no zarr.json, and are found by their .zarray all the same.
  Failure denied_document(std::string_view status, std::string_view key) const {
    Failure denied{"denied",
                   formatted("{}: the key may be absent: {} says so for keys it does not have unless the caller may "
                             "list the bucket; absent_status counts for a document only where another one is beside it",
                             status, service()),
                   false};
    denied.absent_beside = documents_beside(key);
    return denied;
  }

  static bool is_late(const Credentials& used) {
    return used.expires_unix_s && *used.expires_unix_s <= http::unix_now();
  }

  std::string why_denied(const ErrorBody& error, std::string_view body) {
    const bool may_be_absent = error.code == "AccessDenied" || body.empty();
    if (!credentials_->last() && !credentials_->is_anonymous())
      return formatted("the request was unsigned; no credentials in: {}{}", tried(),
                       may_be_absent
                           ? "; if the bucket is public, the key may be absent: mount with anonymous=True, and "
                             "with absent_status=(403, 404) to read absent chunks as fill values"
                           : "");
    if (may_be_absent)
      return formatted(
          "the key may be absent: {} says so for keys it does not have unless the caller may list the bucket; allow "
          "{}, or mount with absent_status=(403, 404)",
          service(), is_google_ ? "storage.objects.list" : "s3:ListBucket");
    if (error.code == "SignatureDoesNotMatch")
      return "the secret does not belong to the key, or a proxy changes requests";
    if (error.code == "InvalidAccessKeyId") return "the service does not know the key";
    return error.message.empty() ? std::string("the service denies access") : error.message;
  }

  std::string_view service() const { return is_google_ ? "Google Cloud Storage" : "S3"; }

  std::string tried() {
    std::string described = credentials_->described();
    constexpr std::string_view kNone = "none in: ";
    return described.starts_with(kNone) ? described.substr(kNone.size()) : described;
  }

  void log_use(bool is_signed, std::string_view region) {
    if (logged_.exchange(true)) return;
    log(LogLevel::info,
        formatted("{}: endpoint {}, region {}, {}; credentials: {}", uri(),
                  endpoint_ ? formatted("{}://{}", endpoint_->scheme, endpoint_->host) : std::string("of AWS"), region,
                  is_signed ? "signed" : "unsigned", credentials_->described()));
  }

  static http::HttpSettings settings_of(const StoreOptions& options) {
    check(options);
    return http::settings_of(options);
  }

  const std::string name_;
  const bool is_google_;
  const StoreOptions options_;
  http::HttpSettings settings_;
  const Profile profile_;
  std::optional<Endpoint> endpoint_;  // empty: AWS
  bool is_path_ = false;              // the bucket is in the path, not in the name of the host
  std::unique_ptr<CredentialSource> credentials_;
  std::atomic<std::int64_t> clock_offset_s_{0};
  std::atomic<bool> logged_{false}, warned_{false};
  PerProcess<Region, std::string> region_;
};

namespace {

// The objects of a bucket below a path.
class S3Service final : public http::Service {
 public:
  S3Service(std::shared_ptr<Bucket> bucket, std::string path) : bucket_(std::move(bucket)), path_(std::move(path)) {}

  std::string identity() const override { return bucket_->endpoint(); }

  Address address(std::string_view key, Time end) override { return bucket_->request(key_of(key), {}, end); }
  bool is_ready() override { return bucket_->is_ready(); }

  std::optional<Failure> refused(std::string_view key, const Head& head, std::string_view body, bool known,
                                 Failure usual) override {
    return bucket_->refused(key, head, body, known, std::move(usual));
  }

  bool has_listings() const noexcept override { return true; }
  std::optional<Address> listing(std::string_view prefix, std::string_view next, Time end) override {
    Fields query{{"list-type", "2"}, {"delimiter", "/"}, {"prefix", listed(prefix)}};
    if (!next.empty()) query.emplace_back("continuation-token", std::string(next));
    return bucket_->request({}, query_text(std::move(query)), end);
  }

  std::optional<http::ListingPage> parse_listing(std::string_view prefix, std::string_view body) override {
    return s3::parse_listing(listed(prefix), body);
  }

 private:
  std::string key_of(std::string_view key) const {
    if (path_.empty()) return std::string(key);
    return key.empty() ? path_ : formatted("{}/{}", path_, key);
  }
  std::string listed(std::string_view prefix) const {
    const std::string key = key_of(prefix);
    return key.empty() ? key : key + "/";
  }

  const std::shared_ptr<Bucket> bucket_;
  const std::string path_;
};

std::shared_ptr<Store> store_in(std::shared_ptr<Bucket> bucket, std::string_view uri, std::string path,
                                const StoreUse& use) {
  http::HttpSettings settings = bucket->settings();
  http::apply(use, settings);
  return http::make_service_store(std::string(uri), std::make_shared<S3Service>(std::move(bucket), std::move(path)),
                                  settings);
}

// The buckets that were named without options. They are kept: credentials and regions are asked for once a process.
class Buckets {
 public:
  std::shared_ptr<Bucket> find(const Place& place) {
    const Lock lock(mutex_);
    auto& kept = buckets_[{place.is_google, place.bucket}];
    if (!kept) kept = std::make_shared<Bucket>(place.bucket, place.is_google, StoreOptions());
    return kept;
  }

 private:
  Mutex mutex_;
  std::map<std::pair<bool, std::string>, std::shared_ptr<Bucket>> buckets_ DAMACY_GUARDED_BY(mutex_);
};

std::shared_ptr<Bucket> bucket_at(const Place& place, const StoreOptions& options) {
  return std::make_shared<Bucket>(place.bucket, place.is_google, options);
}

}  // namespace

bool is_bucket_uri(std::string_view uri) {
  const std::string scheme = scheme_of_uri(uri);
  return scheme == "s3" || scheme == "gs";
}

std::shared_ptr<Store> make_s3_store(std::string_view uri, const StoreUse& use) {
  Place place = place_of(uri);
  return store_in(one_per_process<Buckets>().find(place), uri, std::move(place.path), use);
}

S3Mount::S3Mount(std::string_view prefix, const StoreOptions& options)
    : bucket_(bucket_at(place_of(prefix), options)) {}

std::shared_ptr<Store> S3Mount::store_of(std::string_view uri, const StoreUse& use) const {
  Place place = place_of(uri);
  return store_in(bucket_, uri, std::move(place.path), use);
}

}  // namespace damacy::s3
