#include "damacy/store/s3/credentials.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "damacy/core/error.h"
#include "damacy/core/fork.h"
#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "damacy/core/mutex.h"
#include "damacy/core/text.h"
#include "damacy/store/http/times.h"
#include "damacy/store/http/transfer.h"
#include "damacy/store/s3/environment.h"
#include "damacy/store/s3/exchange.h"
#include "damacy/store/s3/sigv4.h"
#include "damacy/store/s3/xml.h"
#include "damacy/store/storage_call.h"
#include "damacy/store/storage_watch.h"

namespace damacy::s3 {
namespace {

using std::chrono::milliseconds;

constexpr std::int64_t kRefreshSeconds = 300;  // before they expire, one caller asks for new ones
constexpr std::int64_t kWaitSeconds = 60;      // before they expire, all wait
constexpr std::int64_t kAgainSeconds = 10;     // after a refresh failed, while the old ones are valid; then doubled
constexpr std::int64_t kLongestPauseSeconds = 60;
constexpr std::chrono::seconds kRefreshTimeout{10};                          // while the old ones are valid
constexpr milliseconds kLook{20};                                            // for work that was given up
constexpr std::chrono::seconds kAbandoned{Limits::storage_operation_s - 1};  // about when readers are given up
constexpr milliseconds kLateWait{1000};                              // for a call after one that did not answer in time
constexpr milliseconds kLatePause{1000}, kLongestLatePause{60'000};  // between two of them; doubled
constexpr std::chrono::seconds kJustRenewed{60};  // requests that were signed before may still be under way
constexpr milliseconds kMetadataTimeout{1000};
constexpr milliseconds kServiceTimeout{10'000};

Error failed(std::string message) {
  return Error(Status::io, std::move(message), "credentials");
}

Error late() {
  return Error(Status::io, "no credentials came in time", "deadline").with_errno(ETIMEDOUT);
}

std::string failure_text(std::string_view what, const Reply& reply) {
  if (reply.head.status == 0) return text(what, ": ", reply.problem);
  const std::string code = parse_error(reply.body).code;
  return text(what, ": status ", reply.head.status, code.empty() ? "" : " ", code);
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

// One link of the chain. What it cannot give, and why, is `note`.
struct Link {
  std::string name;
  // Empty: it has nothing, and the next one is asked. Throws Error: it has something that is wrong.
  std::function<std::optional<Credentials>(std::string& note, CredentialSource::Time end)> ask;
};

std::optional<Credentials> of_environment(std::string&, CredentialSource::Time) {
  const auto id = environment("AWS_ACCESS_KEY_ID"), secret = environment("AWS_SECRET_ACCESS_KEY");
  if (!id && !secret) return std::nullopt;
  if (!id || !secret)
    throw failed(formatted("the environment has {} without {}", id ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY",
                           id ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID"));
  return Credentials{*id, *secret, environment("AWS_SESSION_TOKEN").value_or(""), {}, std::nullopt};
}

std::optional<Credentials> of_web_identity(const http::HttpSettings& settings, const std::string& region,
                                           std::string&) {
  const auto role = environment("AWS_ROLE_ARN"), path = environment("AWS_WEB_IDENTITY_TOKEN_FILE");
  if (!role || !path) return std::nullopt;
  const auto token = file_content(*path);
  if (!token || token->empty())
    throw failed(formatted("the file that AWS_WEB_IDENTITY_TOKEN_FILE names cannot be read: {}", one_line(*path, 200)));
  const std::string usual =
      region.empty() ? "https://sts.amazonaws.com" : text("https://sts.", region, ".amazonaws.com");
  Exchange asked{"POST", environment("AWS_ENDPOINT_URL_STS").value_or(usual)};
  if (!http::keeps_secrets(asked.url, settings.proxy.value_or("")))
    throw failed("AWS_ENDPOINT_URL_STS is neither https nor this machine: the token would be sent in the clear");
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
    throw failed(failure_text("STS gave no credentials for the web identity", reply));
  return found;
}

std::optional<Credentials> of_profile(const Profile& profile, bool is_wanted, std::string& note) {
  const auto id = profile.find("aws_access_key_id"), secret = profile.find("aws_secret_access_key");
  if (id && secret) return Credentials{*id, *secret, profile.find("aws_session_token").value_or(""), {}, std::nullopt};
  for (const char* const field :
       {"sso_session", "sso_start_url", "credential_process", "source_profile", "role_arn", "credential_source"})
    if (profile.find(field))
      throw failed(formatted("profile '{}' uses {}: pass credentials=\"botocore\" (pip install botocore)",
                             one_line(profile.name, 60), field));
  if (is_wanted)
    throw failed(formatted(
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
  const std::string url = relative ? text("http://169.254.170.2", *relative) : *full;
  if (!is_container_host(url))
    throw failed("AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https nor an address of this machine");
  Exchange asked{"GET", url};
  std::optional<std::string> token = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  if (const auto path = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")) {
    token = file_content(*path);
    if (!token) throw failed("the file that AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE names cannot be read");
  }
  if (token && token->find_first_of("\r\n") != token->npos)
    throw failed("the authorization token of the container holds a line end");
  if (token) asked.headers.push_back(text("Authorization: ", *token));
  http::HttpSettings direct = settings;
  direct.proxy = "";
  const Reply reply = exchange(std::move(asked), url.starts_with("https") ? settings : direct, kServiceTimeout);
  auto found = reply.head.status == 200 ? credentials_of_json(reply.body) : std::nullopt;
  if (!found) throw failed(failure_text("the container gave no credentials", reply));
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
  const std::vector<std::string> headers{text("X-aws-ec2-metadata-token: ", token.body)};
  const std::string below = server + "/latest/meta-data/iam/security-credentials/";
  const Reply roles = exchange({"GET", below, headers}, direct, kMetadataTimeout);
  const std::string role(trimmed(std::string_view(roles.body).substr(0, roles.body.find('\n'))));
  note = "no role";
  if (roles.head.status != 200 || role.empty()) return std::nullopt;
  const Reply reply = exchange({"GET", below + percent_encoded(role, false), headers}, direct, kMetadataTimeout);
  auto found = reply.head.status == 200 ? credentials_of_json(reply.body) : std::nullopt;
  if (!found) throw failed(failure_text("the instance metadata gave no credentials", reply));
  return found;
}

bool is_same(const Credentials& one, const Credentials& other) {
  return one.access_key_id == other.access_key_id && one.secret_access_key == other.secret_access_key &&
         one.session_token == other.session_token && one.bearer_token == other.bearer_token;
}

// What a callable gave after its caller had gone.
class LateAnswer {
 public:
  void put(const Credentials& found) {
    const Lock lock(mutex_);
    found_ = found;
  }
  std::optional<Credentials> take() {
    const Lock lock(mutex_);
    return std::exchange(found_, std::nullopt);
  }
  bool is_there() {
    const Lock lock(mutex_);
    return found_.has_value();
  }

 private:
  Mutex mutex_;
  std::optional<Credentials> found_ DAMACY_GUARDED_BY(mutex_);
};

struct Links {
  std::vector<Link> all;
  bool is_required = false;
  bool is_anonymous = false;
  std::shared_ptr<LateAnswer> late;  // of a callable; null: there is none
};

// What a chain gave. One thread asks at a time; others wait for it.
class Answers {
 public:
  using Time = CredentialSource::Time;

  explicit Answers(std::shared_ptr<const Links> links) : links_(std::move(links)) {}

  std::optional<Credentials> current(Time end) {
    std::uint64_t before = 0;
    {
      const Lock lock(mutex_);
      if (may_use()) return known_;
      before = count_;
      if (is_known_ && seconds_left() > kWaitSeconds) {
        next_ask_unix_s_ = http::unix_now() + pause_s_;  // this caller asks, others go on
        end = std::min(end, std::chrono::steady_clock::now() + kRefreshTimeout);
      }
    }
    const Time began = std::chrono::steady_clock::now();
    try {
      const Turn turn(*this, end);
      {
        const Lock lock(mutex_);
        if (count_ != before) return known_;  // another thread asked meanwhile
        end = std::min(end, end_while_late());
      }
      return ask(end);
    } catch (const Abandoned&) {  // by its deadline, which may come before `end`, or because nobody wants it
      const Time now = std::chrono::steady_clock::now();
      const Lock lock(mutex_);
      if (links_->late && (now - began >= kAbandoned || end - now <= kLateWait)) note_late();
      throw;
    } catch (const Error& error) {
      const Lock lock(mutex_);
      if (links_->late && error.where().reason == "deadline") note_late();
      if (!is_known_ || seconds_left() <= 0) throw;
      next_ask_unix_s_ = http::unix_now() + pause_s_;
      pause_s_ = std::min(2 * pause_s_, kLongestPauseSeconds);
      return known_;
    }
  }

  bool is_ready() {
    const Lock lock(mutex_);
    return !links_->late || may_use();
  }

  std::optional<Credentials> last() {
    const Lock lock(mutex_);
    return known_;
  }

  bool renew(const Credentials& used) {
    const Time end = std::chrono::steady_clock::now() + std::chrono::seconds(Limits::storage_operation_s);
    const Turn turn(*this, end);
    {
      const Lock lock(mutex_);
      if (!known_ || !is_same(*known_, used)) return true;
    }
    const auto fresh = ask(end);
    const Lock lock(mutex_);
    return fresh && (!is_same(*fresh, used) || is_renewed());
  }

  std::string described() {
    const Lock lock(mutex_);
    return described_;
  }

 private:
  // While one lives, its thread asks. Its constructor waits for that of another thread.
  class Turn {
   public:
    Turn(Answers& answers, Time end) : answers_(answers) {
      Lock lock(answers_.mutex_);
      while (answers_.is_asking_) {
        if (std::chrono::steady_clock::now() >= end) throw late();
        lock.unlock();
        http::leave_if_unwanted();
        lock.lock();
        if (answers_.is_asking_) answers_.changed_.wait_for(lock, kLook);
      }
      answers_.is_asking_ = true;
    }
    ~Turn() {
      const Lock lock(answers_.mutex_);
      answers_.is_asking_ = false;
      answers_.changed_.notify_all();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Answers& answers_;
  };

  // After a call that did not answer in time, the requests of a batch do not wait for one each, but fail at once. Once
  // in a while one calls again, for a short time. Throws Error(io, "deadline").
  Time end_while_late() DAMACY_REQUIRES(mutex_) {
    if (!is_late_ || links_->late->is_there()) return Time::max();
    const Time now = std::chrono::steady_clock::now();
    if (now < next_call_) throw late();
    return now + kLateWait;
  }

  void note_late() DAMACY_REQUIRES(mutex_) {
    next_call_ = std::chrono::steady_clock::now();
    if (is_late_) next_call_ += std::exchange(late_pause_, std::min(2 * late_pause_, kLongestLatePause));
    is_late_ = true;
  }

  // Requests may still be answered that were signed with those before.
  bool is_renewed() DAMACY_REQUIRES(mutex_) {
    return renewed_at_ && std::chrono::steady_clock::now() - *renewed_at_ < kJustRenewed;
  }

  // They are valid, and it is not time to ask for others.
  bool may_use() DAMACY_REQUIRES(mutex_) {
    const std::int64_t left = seconds_left();
    return is_known_ && left > 0 && (left > kRefreshSeconds || http::unix_now() < next_ask_unix_s_);
  }

  std::int64_t seconds_left() DAMACY_REQUIRES(mutex_) {
    if (!known_ || !known_->expires_unix_s) return std::int64_t{1} << 40;
    return *known_->expires_unix_s - http::unix_now();
  }

  // In its turn.
  std::optional<Credentials> ask(Time end) {
    std::size_t at = 0;
    bool is_required = links_->is_required;
    {
      const Lock lock(mutex_);
      at = winner_;
      if (known_) is_required = true;
    }
    std::string tried;
    std::optional<Credentials> found;
    for (; at < links_->all.size(); ++at) {
      const Link& link = links_->all[at];
      std::string note;
      found = link.ask(note, end);
      if (found) break;
      tried += text(tried.empty() ? "" : ", ", link.name, note.empty() ? "" : text(" (", note, ")"));
    }
    if (!found && is_required) throw failed(formatted("no credentials in: {}", tried));
    const Lock lock(mutex_);
    if (found) winner_ = at;
    if (known_ && found && !is_same(*known_, *found)) renewed_at_ = std::chrono::steady_clock::now();
    known_ = found;
    is_known_ = true;
    ++count_;
    pause_s_ = kAgainSeconds;
    is_late_ = false;
    late_pause_ = kLatePause;
    described_ = found ? links_->all[at].name : text("none in: ", tried);
    return known_;
  }

  const std::shared_ptr<const Links> links_;
  Mutex mutex_;
  Condition changed_;
  bool is_asking_ DAMACY_GUARDED_BY(mutex_) = false;
  std::uint64_t count_ DAMACY_GUARDED_BY(mutex_) = 0;  // of answers
  std::size_t winner_ DAMACY_GUARDED_BY(mutex_) = 0;   // the links before it had nothing
  std::optional<Credentials> known_ DAMACY_GUARDED_BY(mutex_);
  bool is_known_ DAMACY_GUARDED_BY(mutex_) = false;
  std::int64_t next_ask_unix_s_ DAMACY_GUARDED_BY(mutex_) = 0;
  std::int64_t pause_s_ DAMACY_GUARDED_BY(mutex_) = kAgainSeconds;
  std::optional<Time> renewed_at_ DAMACY_GUARDED_BY(mutex_);  // others took their place
  bool is_late_ DAMACY_GUARDED_BY(mutex_) = false;            // the last call did not answer in time
  Time next_call_ DAMACY_GUARDED_BY(mutex_){};                // then
  milliseconds late_pause_ DAMACY_GUARDED_BY(mutex_) = kLatePause;
  std::string described_ DAMACY_GUARDED_BY(mutex_);
};

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
                        CredentialSource::Time end) {
  if (auto found = late_answer->take()) return *found;
  const auto look = [end] {
    http::leave_if_unwanted();
    if (std::chrono::steady_clock::now() >= end) throw late();
  };
  const auto call = [ask, late_answer] {
    Credentials given = ask();
    const bool is_whole =
        !given.bearer_token.empty() || (!given.access_key_id.empty() && !given.secret_access_key.empty());
    if (is_whole) late_answer->put(given);
    return given;
  };
  Credentials found =
      storage_result([call] { return StorageWatch::wait_behind(call); }, {.while_waiting = look});  // it can be left
  static_cast<void>(late_answer->take());
  if (found.bearer_token.empty() && (found.access_key_id.empty() || found.secret_access_key.empty()))
    throw failed("the callable gave neither a key with its secret nor a token");
  return found;
}

}  // namespace

std::unique_ptr<CredentialSource> make_credential_source(const StoreOptions& options,
                                                         const http::HttpSettings& settings, const Profile& profile) {
  using Time = CredentialSource::Time;
  using Found = std::optional<Credentials>;
  Links links;
  const auto given = [&](Credentials credentials) {
    links.all.push_back(
        {"options", [credentials = std::move(credentials)](std::string&, Time) { return credentials; }});
    links.is_required = true;
    return std::make_unique<Chain>(std::move(links));
  };
  if (options.access_key_id)
    return given({*options.access_key_id, *options.secret_access_key, options.session_token.value_or(""), {}, {}});
  if (options.bearer_token) return given({{}, {}, {}, *options.bearer_token, {}});
  if (options.credentials) {
    links.late = std::make_shared<LateAnswer>();
    links.all.push_back(
        {"credentials", [ask = options.credentials, late = links.late](std::string&, Time end) -> Found {
           return of_callable(ask, late, end);
         }});
    links.is_required = true;
    return std::make_unique<Chain>(std::move(links));
  }
  const bool is_wanted = options.profile.has_value();
  links.is_anonymous =
      options.anonymous == true || (!options.anonymous && !is_wanted && is_set_true("AWS_NO_SIGN_REQUEST"));
  if (links.is_anonymous) {
    links.all.push_back({"anonymous", [](std::string&, Time) { return std::nullopt; }});
    return std::make_unique<Chain>(std::move(links));
  }
  if (!is_wanted) {
    const std::string region =
        options.region.value_or(environment("AWS_REGION").value_or(environment("AWS_DEFAULT_REGION").value_or("")));
    links.all.push_back({"options", [](std::string&, Time) { return std::nullopt; }});
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
