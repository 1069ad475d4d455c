#include "damacy/store/s3/credentials.h"

#include <fstream>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "damacy/core/error.h"
#include "damacy/core/fork.h"
#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"
#include "damacy/core/text.h"
#include "damacy/store/http/times.h"
#include "damacy/store/http/transfer.h"
#include "damacy/store/s3/credential_answers.h"
#include "damacy/store/s3/environment.h"
#include "damacy/store/s3/exchange.h"
#include "damacy/store/s3/sigv4.h"
#include "damacy/store/s3/xml.h"
#include "damacy/store/storage_call.h"
#include "damacy/store/storage_watch.h"

namespace damacy::s3 {
namespace {

using std::chrono::milliseconds;
using Time = CredentialSource::Time;

constexpr milliseconds kMetadataTimeout{1000};
constexpr milliseconds kServiceTimeout{10'000};

std::string failure_text(std::string_view what, const Reply& reply) {
  if (reply.head.status == 0) return formatted("{}: {}", what, reply.problem);
  const std::string code = parse_error(reply.body).code;
  return formatted("{}: status {}{}{}", what, reply.head.status, code.empty() ? "" : " ", code);
}

std::optional<Credentials> credentials_of_json(std::string_view json) {
  const auto id = json_string(json, "AccessKeyId");
  const auto secret = json_string(json, "SecretAccessKey");
  if (!id || !secret) return std::nullopt;
  Credentials found{*id, *secret, json_string(json, "Token").value_or(""), {}, std::nullopt};
  if (const auto expires = json_string(json, "Expiration")) found.expires_unix_s = http::parse_time(*expires);
  return found;
}

std::optional<std::string> file_content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string content(64 << 10, '\0');
  file.read(content.data(), static_cast<std::streamsize>(content.size()));
  content.resize(static_cast<std::size_t>(file.gcount()));
  return std::string(trimmed(content));
}

// Servers of instance metadata, and whether they ever answered: those that did not are asked once a process.
class MetadataServers {
 public:
  bool is_silent(const std::string& url) {
    const Lock lock(mutex_);
    const auto at = answered_.find(url);
    return at != answered_.end() && !at->second;
  }
  void note(const std::string& url, bool has_answered) {
    const Lock lock(mutex_);
    answered_[url] |= has_answered;
  }

 private:
  Mutex mutex_;
  std::map<std::string, bool> answered_ DAMACY_GUARDED_BY(mutex_);
};

std::optional<Credentials> of_variables(const char* id_name, const char* secret_name) {
  const auto id = environment(id_name), secret = environment(secret_name);
  if (!id && !secret) return std::nullopt;
  if (!id || !secret)
    throw no_credentials(
        formatted("the environment has {} without {}", id ? id_name : secret_name, id ? secret_name : id_name));
  return Credentials{*id, *secret, {}, {}, std::nullopt};
}

std::optional<Credentials> of_environment(std::string&, Time) {
  auto found = of_variables("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY");
  if (found) found->session_token = environment("AWS_SESSION_TOKEN").value_or("");
  return found;
}

std::optional<Credentials> of_google_environment(std::string&, Time) {
  return of_variables("GS_ACCESS_KEY_ID", "GS_SECRET_ACCESS_KEY");
}

std::optional<Credentials> of_nothing(std::string&, Time) {
  return std::nullopt;
}

std::optional<Credentials> of_web_identity(const http::HttpSettings& settings, const std::string& region,
                                           std::string&) {
  const auto role = environment("AWS_ROLE_ARN"), path = environment("AWS_WEB_IDENTITY_TOKEN_FILE");
  if (!role || !path) return std::nullopt;
  const auto token = file_content(*path);
  if (!token || token->empty())
    throw no_credentials(
        formatted("the file that AWS_WEB_IDENTITY_TOKEN_FILE names cannot be read: {}", one_line(*path, 200)));
  const std::string usual =
      region.empty() ? "https://sts.amazonaws.com" : formatted("https://sts.{}.amazonaws.com", region);
  Exchange asked{"POST", environment("AWS_ENDPOINT_URL_STS").value_or(usual)};
  if (!http::keeps_secrets(asked.url, settings.proxy.value_or("")))
    throw no_credentials(
        "AWS_ENDPOINT_URL_STS is neither https nor this machine: the token would be sent in the clear");
  asked.headers = {"Content-Type: application/x-www-form-urlencoded", "Expect:"};
  asked.body = query_text({{"Action", "AssumeRoleWithWebIdentity"},
                           {"Version", "2011-06-15"},
                           {"RoleArn", *role},
                           {"RoleSessionName", environment("AWS_ROLE_SESSION_NAME").value_or("damacy")},
                           {"WebIdentityToken", *token}});
  const Reply reply = exchange(std::move(asked), settings, kServiceTimeout);
  Credentials found;
  const bool is_whole = walk_xml(reply.body, [&](std::span<const std::string_view> names, std::string value) {
    if (names.size() < 2 || names[names.size() - 2] != "Credentials") return;
    if (names.back() == "AccessKeyId") found.access_key_id = std::move(value);
    if (names.back() == "SecretAccessKey") found.secret_access_key = std::move(value);
    if (names.back() == "SessionToken") found.session_token = std::move(value);
    if (names.back() == "Expiration") found.expires_unix_s = http::parse_time(value);
  });
  if (reply.head.status != 200 || !is_whole || found.access_key_id.empty() || found.secret_access_key.empty())
    throw no_credentials(failure_text("STS gave no credentials for the web identity", reply));
  return found;
}

std::optional<Credentials> of_profile(const Profile& profile, bool is_wanted, std::string& note) {
  const auto id = profile.find("aws_access_key_id"), secret = profile.find("aws_secret_access_key");
  if (id && secret) return Credentials{*id, *secret, profile.find("aws_session_token").value_or(""), {}, std::nullopt};
  for (const char* const field :
       {"sso_session", "sso_start_url", "credential_process", "source_profile", "role_arn", "credential_source"})
    if (profile.find(field))
      throw no_credentials(formatted("profile '{}' uses {}: pass credentials=\"botocore\" (pip install botocore)",
                                     one_line(profile.name, 60), field));
  if (is_wanted)
    throw no_credentials(formatted(
        "profile '{}' {}", one_line(profile.name, 60),
        profile.is_found ? "has no aws_access_key_id and aws_secret_access_key" : "is in neither of the files of AWS"));
  note = profile.is_found ? "no keys" : "";
  return std::nullopt;
}

// The token goes over plain HTTP only to this machine and to the addresses that ECS and EKS use.
bool is_container_host(std::string_view url) {
  if (url.starts_with("https://")) return true;
  if (!url.starts_with("http://")) return false;
  std::string_view host = url.substr(7, url.find('/', 7) - 7);
  if (host.find('@') != host.npos) return false;
  if (host.starts_with('[')) return host.starts_with("[::1]") || host.starts_with("[fd00:ec2::23]");
  host = host.substr(0, host.find(':'));
  return host == "localhost" || host == "127.0.0.1" || host == "169.254.170.2" || host == "169.254.170.23";
}

std::optional<Credentials> of_container(const http::HttpSettings& settings, std::string&) {
  const auto relative = environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  const auto full = environment("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  if (!relative && !full) return std::nullopt;
  const std::string url = relative ? formatted("http://169.254.170.2{}", *relative) : *full;
  if (!is_container_host(url))
    throw no_credentials("AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https nor an address of this machine");
  Exchange asked{"GET", url};
  std::optional<std::string> token = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  if (const auto path = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")) {
    token = file_content(*path);
    if (!token) throw no_credentials("the file that AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE names cannot be read");
  }
  if (token && token->find_first_of("\r\n") != token->npos)
    throw no_credentials("the authorization token of the container holds a line end");
  if (token) asked.headers.push_back(formatted("Authorization: {}", *token));
  http::HttpSettings direct = settings;
  direct.proxy = "";
  const Reply reply = exchange(std::move(asked), url.starts_with("https") ? settings : direct, kServiceTimeout);
  auto found = reply.head.status == 200 ? credentials_of_json(reply.body) : std::nullopt;
  if (!found) throw no_credentials(failure_text("the container gave no credentials", reply));
  return found;
}

std::optional<Credentials> of_instance(const http::HttpSettings& settings, std::string& note) {
  if (is_set_true("AWS_EC2_METADATA_DISABLED")) {
    note = "disabled";
    return std::nullopt;
  }
  std::string server = environment("AWS_EC2_METADATA_SERVICE_ENDPOINT").value_or("http://169.254.169.254");
  while (server.ends_with('/')) server.pop_back();
  auto& servers = one_per_process<MetadataServers>();
  note = "timed out";
  if (servers.is_silent(server)) return std::nullopt;
  http::HttpSettings direct = settings;
  direct.proxy = "";
  const Reply token = exchange({"PUT", server + "/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds: 21600"}},
                               direct, kMetadataTimeout);
  const bool has_answered =
      token.head.status == 200 && !token.body.empty() && token.body.find_first_of("\r\n") == token.body.npos;
  servers.note(server, has_answered);
  if (!has_answered) {
    note = token.head.status == 0 ? token.problem : formatted("status {}", token.head.status);
    return std::nullopt;
  }
  const std::vector<std::string> headers{formatted("X-aws-ec2-metadata-token: {}", token.body)};
  const std::string below = server + "/latest/meta-data/iam/security-credentials/";
  const Reply roles = exchange({"GET", below, headers}, direct, kMetadataTimeout);
  const std::string role(trimmed(std::string_view(roles.body).substr(0, roles.body.find('\n'))));
  note = "no role";
  if (roles.head.status != 200 || role.empty()) return std::nullopt;
  const Reply reply = exchange({"GET", below + percent_encoded(role, false), headers}, direct, kMetadataTimeout);
  auto found = reply.head.status == 200 ? credentials_of_json(reply.body) : std::nullopt;
  if (!found) throw no_credentials(failure_text("the instance metadata gave no credentials", reply));
  return found;
}

class Chain final : public CredentialSource {
 public:
  explicit Chain(Links links)
      : is_anonymous_(links.is_anonymous), answers_(std::make_shared<const Links>(std::move(links))) {}

  std::optional<Credentials> current(Time end) override { return answers_.get().current(end); }
  bool is_ready() override { return answers_.get().is_ready(); }
  std::optional<Credentials> last() override { return answers_.get().last(); }
  bool is_anonymous() const noexcept override { return is_anonymous_; }
  bool renew(const Credentials& used) override { return answers_.get().renew(used); }
  std::string described() override { return answers_.get().described(); }

 private:
  const bool is_anonymous_;
  PerProcess<Answers, std::shared_ptr<const Links>> answers_;  // a child does not wait for threads of its parent
};

// On a thread of its own: a callable may wait long, and the reader may be given up meanwhile.
Credentials of_callable(const std::function<Credentials()>& ask, const std::shared_ptr<LateAnswer>& late_answer,
                        Time end) {
  if (auto found = late_answer->take()) return *found;
  const auto look = [end] {
    http::leave_if_unwanted();
    if (std::chrono::steady_clock::now() >= end) throw late_credentials();
  };
  const auto is_whole = [](const Credentials& given) {
    return !given.bearer_token.empty() || (!given.access_key_id.empty() && !given.secret_access_key.empty());
  };
  const auto call = [ask, late_answer, is_whole] {
    Credentials given = ask();
    if (is_whole(given)) late_answer->put(given);
    return given;
  };
  Credentials found =
      storage_result([call] { return StorageWatch::wait_behind(call); }, {.while_waiting = look});  // it can be left
  static_cast<void>(late_answer->take());
  if (!is_whole(found)) throw no_credentials("the callable gave neither a key with its secret nor a token");
  return found;
}

// Where the options themselves say who asks, or that requests are unsigned: nothing else is asked. `unsigned_name`: the
// variable that says the latter if the options do not.
std::optional<Links> links_of_options(const StoreOptions& options, const char* unsigned_name) {
  Links links;
  links.is_required = true;
  const auto given = [&](Credentials credentials) {
    links.all.push_back(
        {"options", [credentials = std::move(credentials)](std::string&, Time) { return credentials; }});
    return std::move(links);
  };
  if (options.access_key_id)
    return given({*options.access_key_id, *options.secret_access_key, options.session_token.value_or(""), {}, {}});
  if (options.bearer_token) return given({{}, {}, {}, *options.bearer_token, {}});
  if (options.credentials) {
    links.late = std::make_shared<LateAnswer>();
    links.all.push_back(
        {"credentials",
         [ask = options.credentials, late = links.late](std::string&, Time end) -> std::optional<Credentials> {
           return of_callable(ask, late, end);
         }});
    return links;
  }
  links.is_required = false;
  links.is_anonymous =
      options.anonymous == true || (!options.anonymous && !options.profile && is_set_true(unsigned_name));
  if (!links.is_anonymous) return std::nullopt;
  links.all.push_back({"anonymous", of_nothing});
  return links;
}

}  // namespace

std::unique_ptr<CredentialSource> make_google_credential_source(const StoreOptions& options) {
  if (auto given = links_of_options(options, "GS_NO_SIGN_REQUEST")) return std::make_unique<Chain>(std::move(*given));
  Links links;
  links.all = {{"options", of_nothing}, {"environment", of_google_environment}};
  links.is_required = options.anonymous == false;
  return std::make_unique<Chain>(std::move(links));
}

std::unique_ptr<CredentialSource> make_credential_source(const StoreOptions& options,
                                                         const http::HttpSettings& settings, const Profile& profile) {
  if (auto given = links_of_options(options, "AWS_NO_SIGN_REQUEST")) return std::make_unique<Chain>(std::move(*given));
  Links links;
  const bool is_wanted = options.profile.has_value();
  if (!is_wanted) {
    const std::string region =
        options.region.value_or(environment("AWS_REGION").value_or(environment("AWS_DEFAULT_REGION").value_or("")));
    links.all.push_back({"options", of_nothing});
    links.all.push_back({"environment", of_environment});
    links.all.push_back({"web identity", [settings, region](std::string& note, Time) {
                           return of_web_identity(settings, region, note);
                         }});
  }
  links.all.push_back(
      {formatted("profile '{}'", one_line(profile.name, 60)), [profile, options](std::string& note, Time) {
         const bool is_named = options.profile.has_value();
         return of_profile(is_named ? read_profile(options.profile) : profile, is_named, note);
       }});
  if (!is_wanted) {
    links.all.push_back({"container", [settings](std::string& note, Time) { return of_container(settings, note); }});
    links.all.push_back(
        {"instance metadata", [settings](std::string& note, Time) { return of_instance(settings, note); }});
  }
  links.is_required = is_wanted || options.anonymous == false;
  return std::make_unique<Chain>(std::move(links));
}

std::optional<std::string> json_string(std::string_view json, std::string_view name) {
  std::optional<std::string> before;  // the string that was read last, if only ':' followed
  bool is_member = false;
  for (std::size_t at = 0; at < json.size(); ++at) {
    const char c = json[at];
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n') continue;
    if (c == ':' && before) {
      is_member = true;
      continue;
    }
    if (c != '"') {
      before.reset(), is_member = false;
      continue;
    }
    std::string value;
    for (++at; at < json.size() && json[at] != '"'; ++at) {
      if (json[at] == '\\' && ++at < json.size() && json[at] != '"' && json[at] != '\\' && json[at] != '/')
        return std::nullopt;  // no value that is looked for has other escapes
      if (at < json.size()) value += json[at];
    }
    if (at >= json.size()) return std::nullopt;
    if (is_member && before && *before == name) return value;
    before = is_member ? std::nullopt : std::optional(std::move(value));
    is_member = false;
  }
  return std::nullopt;
}

}  // namespace damacy::s3
