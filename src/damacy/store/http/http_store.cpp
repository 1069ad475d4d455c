#include "damacy/store/http/http_store.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "damacy/core/error.h"
#include "damacy/core/fork.h"
#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "damacy/store/http/curl.h"
#include "damacy/store/http/known_objects.h"
#include "damacy/store/http/origin.h"
#include "damacy/store/http/plain_service.h"
#include "damacy/store/http/redirect.h"
#include "damacy/store/http/version.h"

namespace damacy::http {
namespace {

constexpr std::size_t kListingBytes = 1 << 20;  // of a page
constexpr int kListingPages = 1000;

// Whether an answer to the first request has the first bytes of an object, and its size.
bool begins(const Head& head, const Request& request, const void*) {
  if (head.status == 200 && is_plain(head) && !head.range) return head.length && *head.length <= request.memory.size();
  if (!head.range || !head.range->total || *head.range->total == 0) return false;
  return is_range(head, 0, std::min<std::uint64_t>(*head.range->total, request.memory.size()), std::nullopt);
}

// Some servers know no ranges from the end, or none that is longer than the object.
bool is_no_answer_to_a_suffix(int status) {
  return (status >= 200 && status < 300) || status == 416 || status == 400 || status == 501;
}

// Of a request for the last bytes, which may be all.
bool ends(const Head& head, const Request& request, const void*) {
  if (head.status == 200 && is_plain(head) && !head.range) return head.length && *head.length <= request.memory.size();
  if (!head.range || !head.range->total || *head.range->total == 0) return false;
  const auto count = std::min<std::uint64_t>(*head.range->total, request.memory.size());
  return is_range(head, *head.range->total - count, count, std::nullopt);
}

class HttpStore final : public Store {
 public:
  HttpStore(std::string name, std::shared_ptr<Service> service, const HttpSettings& settings)
      : origin_(std::make_shared<const Origin>(std::move(name), std::move(service), settings)),
        known_(settings.revalidate_after) {}

  std::string name() const override { return origin_->name(); }
  bool is_remote() const noexcept override { return true; }
  std::string identity() const override { return formatted("{}\n{}", origin_->service().identity(), origin_->name()); }
  bool is_immutable() const noexcept override { return origin_->settings().immutable; }
  ReadShape read_shape() const noexcept override { return origin_->read_shape(); }

  std::string why_absent() override {
    return origin_->service().has_listings() ? std::string()
                                             : "arrays inside are not named: plain HTTP has no listings";
  }
  std::shared_ptr<Object> open(std::string_view key) override { return find(key); }

  std::optional<Stamp> stamp(std::string_view key) override {
    const auto known = this->known().find(key);
    const auto object = known ? *known : find(key);
    if (!object) return std::nullopt;
    return object->stamp();
  }

  bool can_expect() const noexcept override {
    return origin_->settings().revalidate_after > std::chrono::milliseconds(0);
  }
  // Begins what open() asks for. Without memory, or when many are expected, open() asks itself.
  void expect(std::string_view key, const Expectation& read) override {
    const auto [bytes, from_end, reads, again] = read;
    std::optional<std::shared_ptr<HttpObject>> claim;
    bool is_expected = false;
    const auto failure = damacy::failure_of([&] {
      check_key(key);
      const std::size_t usual = origin_->settings().head_bytes;
      const Lock in_order(known().beginning());
      claim = known().claim(key, again && reads > 0 ? std::min<std::uint64_t>(bytes, kExpectedBytes) : 0);
      if (!claim) {
        if (reads > 0) known().add_reads(key, reads);
        return;
      }
      if (!origin_->service().is_ready()) return;
      auto expected = std::make_unique<ExpectedObject>();
      expected->reads = reads;
      expected->known = *claim;
      const std::uint64_t wanted = expected->known ? expected->known->stamp().size : bytes;
      const std::size_t count = known().bytes_to_expect(wanted, from_end ? 0 : usual);
      if (expected->known) {
        if (count < wanted) return;
        expected->head.resize(wanted);
        expected->again = expected->known->try_read(expected->head.bytes());
        if (!expected->again) return;
      } else {
        expected->from_end = from_end && bytes > 0 && count == bytes;
        expected->head.resize(count > 0 ? count : usual);
        expected->old = known().find_old(key);
        if (expected->old && !expected->old->has_head()) expected->old.reset();  // its bytes are wanted again
        const std::string condition = expected->old ? expected->old->unless_it_is() : std::string();
        auto first = origin_->begin({key, 0, expected->head.bytes(), condition, expected->from_end ? &ends : &begins,
                                     nullptr, expected->from_end},
                                    {});
        if (!first) return;
        expected->first = std::move(*first);
      }
      known().expect(key, std::move(expected));
      is_expected = true;
    });
    static_cast<void>(failure);
    if (claim && !is_expected) known().forget(key);
  }
  void unexpect(std::string_view key) noexcept override {
    static_cast<void>(damacy::failure_of([&] { known().remove_read(key).reset(); }));
  }

  std::vector<Entry> list(std::string_view prefix) override {
    if (!prefix.empty()) check_key(prefix);
    std::vector<Entry> entries;
    std::vector<std::byte> memory;
    std::string next;
    for (int pages = 0; pages < kListingPages; ++pages) {
      auto page = list_page(prefix, next, memory);
      if (!page) return {};
      std::move(page->entries.begin(), page->entries.end(), std::back_inserter(entries));
      if (page->next.empty() || page->next == next) {
        std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
        const auto end = std::unique(entries.begin(), entries.end(),
                                     [](const Entry& a, const Entry& b) { return a.name == b.name; });
        entries.erase(end, entries.end());
        return entries;
      }
      next = std::move(page->next);
    }
    throw Error(Status::io, formatted("the listing has more than {} pages", kListingPages), "limit")
        .at_key(prefix)
        .at_store(origin_->name());
  }

 private:
  // What is known of the object, if that is not too old; else what the server says. Null: absent. `alone`: without
  // looking for objects beside it.
  std::shared_ptr<HttpObject> find(std::string_view key, bool alone = false) {
    check_key(key);
    if (auto object = known().find_unasked(key)) return std::move(*object);
    const KnownObjects::Asking asking(known(), key, /*waits=*/!alone);
    std::unique_ptr<ExpectedObject> expected = known().take_expected(key);
    if (expected && expected->known) {
      expected->again->finish();
      expected->known->take_head({std::move(expected->head), 0, expected->reads, known().head_counts()});
      known().keep(key, expected->known, expected->asked);
      return std::move(expected->known);
    }
    if (auto object = known().find(key)) return std::move(*object);  // kept by another thread meanwhile
    const SteadyTime asked = expected ? expected->asked : std::chrono::steady_clock::now();
    const auto old = expected ? expected->old : known().find_old(key);
    auto object = ask(key, std::move(expected), old, alone);
    known().keep(key, object, asked);
    return object;
  }

  bool is_any_there(const std::vector<std::string>& keys) {
    return std::ranges::any_of(keys, [this](const std::string& key) {
      try {
        return find(key, /*alone=*/true) != nullptr;
      } catch (const Error& e) {
        if (e.where().reason != "denied") throw;
        return false;
      }
    });
  }

  // The first bytes of an object, or the last ones that are expected; the answer also says its size and version. A
  // server that has no last bytes for us is asked for the first, one that ignores ranges for more than the few expected
  // ones. `old`: what it was; null: not known.
  std::shared_ptr<HttpObject> ask(std::string_view key, std::unique_ptr<ExpectedObject> expected,
                                  const std::shared_ptr<HttpObject>& old, bool alone) {
    if (old && origin_->settings().counts) origin_->settings().counts->revalidated();
    const std::string condition = old ? old->unless_it_is() : std::string();
    AnswerBlock head = expected ? std::move(expected->head) : AnswerBlock();
    std::optional<FirstAttempt> first = expected ? std::optional(std::move(expected->first)) : std::nullopt;
    bool from_end = expected && expected->from_end;
    const std::size_t reads = expected ? expected->reads : 0;
    if (!first) head.resize(origin_->settings().head_bytes);
    std::shared_ptr<HttpObject> object;
    const auto attempt_one = [&](Attempt& attempt) -> std::optional<Failure> {
      auto transfer = origin_->run({key, 0, head.bytes(), condition, from_end ? &ends : &begins, nullptr, from_end},
                                   attempt, first);
      if (from_end && !transfer->accepts() && is_no_answer_to_a_suffix(transfer->head().status)) {
        from_end = false;
        head.resize(origin_->settings().head_bytes);
        transfer = origin_->run({key, 0, head.bytes(), condition, &begins}, attempt, first);
      } else if (const std::size_t usual = origin_->settings().head_bytes;
                 head.size() < usual && !transfer->accepts() && transfer->head().status == 200 &&
                 transfer->head().length.value_or(0) <= usual) {
        head.resize(usual);
        transfer = origin_->run({key, 0, head.bytes(), condition, &begins}, attempt, first);
      }
      const Head& answer = transfer->head();
      attempt.answered(answer);
      if (!condition.empty() && answer.status == 304) {
        object = old;
        object->add_reads(reads);
        return std::nullopt;
      }
      const bool empty = answer.status == 416 && answer.range && !answer.range->first && answer.range->total == 0u;
      if (!empty) {
        bool absent = false;
        const auto failure = origin_->failure_of(key, *transfer, /*known=*/false, absent);
        if (absent || (failure && !alone && is_any_there(failure->absent_beside))) return std::nullopt;
        if (failure) return failure;
      }
      const std::uint64_t size = answer.range ? *answer.range->total : answer.length.value_or(0);
      Version version = version_in(answer, empty ? 0 : size);
      if (const auto wanted = std::min<std::uint64_t>(version.size, head.size()); transfer->landed() < wanted)
        return ended_early(*transfer, wanted - transfer->landed());
      else if (transfer->landed() > wanted)
        return Failure{"range", formatted("{} with too long a body", status_text(answer)), true, Once::misfit};
      if (!empty && version.tag.empty() && version.modified.empty() && !origin_->settings().allow_unversioned)
        return Failure{"no-validator",
                       "the answer has neither a strong ETag nor Last-Modified: a change could not be noticed", false};
      head.resize(transfer->landed());
      head.shrink();
      const std::uint64_t head_at = from_end ? version.size - head.size() : 0;
      object = std::make_shared<HttpObject>(origin_, std::string(key), std::move(version),
                                            FirstBytes{std::move(head), head_at, reads, known().head_counts()});
      return std::nullopt;
    };
    origin_->attempts(key, head.size(), attempt_one, first);
    return object;
  }

  // Empty: there are no listings, or nothing is there.
  std::optional<ListingPage> list_page(std::string_view prefix, std::string_view next, std::vector<std::byte>& memory) {
    std::optional<ListingPage> page;
    origin_->attempts(prefix, kListingBytes, [&](Attempt& attempt) -> std::optional<Failure> {
      auto address = origin_->listing(prefix, next, attempt);
      if (!address) return std::nullopt;
      memory.resize(kListingBytes);
      const auto transfer = origin_->run_whole(prefix, std::move(*address), memory, attempt);
      attempt.answered(transfer->head());
      bool absent = false;
      if (auto failure = origin_->failure_of(prefix, *transfer, /*known=*/false, absent)) return failure;
      if (absent && transfer->head().status == 403)
        return Failure{"denied", formatted("{}: the listing is denied", status_text(transfer->head())), false};
      if (absent) return std::nullopt;
      if (transfer->code() != curl_code::ok)
        return Failure{transfer->is_timed_out() ? "deadline" : "io", "the listing ended early", true, Once::no, false,
                       /*is_broken=*/!transfer->is_timed_out()};
      page =
          origin_->service().parse_listing(prefix, {reinterpret_cast<const char*>(memory.data()), transfer->landed()});
      if (!page) return Failure{"io", "the answer is no listing", true, Once::misfit};
      return std::nullopt;
    });
    return page;
  }

  KnownObjects& known() { return known_.get(); }

  const std::shared_ptr<const Origin> origin_;
  PerProcess<KnownObjects, std::chrono::milliseconds> known_;  // claims and requests of a parent are not its child's
};

[[noreturn]] void refuse(std::string_view uri, std::string_view why) {
  throw Error(Status::inval, std::string(why), "uri").at_uri(without_secrets(uri));
}

// Without its query and fragment, unless those are refused.
void check_uri(std::string_view uri, bool may_have_query) {
  const std::string scheme = scheme_of_uri(uri);
  if (scheme != "http" && scheme != "https") refuse(uri, "the uri is not http:// or https://");
  if (uri.size() >= Limits::uri_bytes) refuse(uri, formatted("is not shorter than {} bytes", Limits::uri_bytes));
  const std::string_view rest = uri.substr(scheme.size() + 3);
  const std::string_view host = rest.substr(0, rest.find_first_of("/?#"));
  if (host.empty()) refuse(uri, "the uri has no host");
  if (host.find('@') != host.npos) refuse(uri, "user info in a uri is not supported");
  if (!may_have_query && rest.find_first_of("?#") != rest.npos)
    refuse(uri, "queries and fragments in a uri are not supported");
  if (rest.find('#') != rest.npos) refuse(uri, "fragments in a uri are not supported");
  for (const char c : rest)
    if (static_cast<unsigned char>(c) <= 0x20 || static_cast<unsigned char>(c) >= 0x7f)
      refuse(uri, "the uri is not percent-encoded");
}

void check_options(std::string_view uri, const StoreOptions& options) {
  check(options);
  const auto refuse_option = [](std::string_view field, std::string_view why) {
    throw Error(Status::inval, formatted("StoreOptions.{}: {}", field, why), "options");
  };
  constexpr std::string_view kOnlyS3 = "only for s3, not for http(s)";
  if (options.endpoint) refuse_option("endpoint", kOnlyS3);
  if (options.region) refuse_option("region", kOnlyS3);
  if (options.credentials) refuse_option("credentials", kOnlyS3);
  if (options.profile) refuse_option("profile", kOnlyS3);
  if (options.access_key_id) refuse_option("access_key_id", kOnlyS3);
  if (options.request_payer) refuse_option("request_payer", kOnlyS3);
  const bool is_secret = options.bearer_token || !options.headers.empty();
  if (is_secret && !keeps_secrets(uri, options.proxy.value_or("")))
    refuse_option(options.bearer_token ? "bearer_token" : "headers", "goes over http only to this machine: use https");
}

}  // namespace

void check_http_uri(std::string_view uri) {
  check_uri(uri, /*may_have_query=*/false);
}

std::shared_ptr<Store> make_http_store(std::string_view uri, const HttpSettings& settings) {
  check_http_uri(uri);
  while (uri.ends_with('/')) uri.remove_suffix(1);
  return make_service_store(std::string(uri), make_plain_service(std::string(uri), settings), settings);
}

std::shared_ptr<Store> make_http_store(std::string_view uri, const StoreOptions& options, const StoreUse& use) {
  check_http_uri(uri);
  check_options(uri, options);
  return make_http_store(uri, settings_of(options, use));
}

std::shared_ptr<Store> make_url_store(std::string_view url, const StoreOptions& options, const StoreUse& use) {
  check_uri(url, /*may_have_query=*/true);
  check_options(url, options);
  const HttpSettings settings = settings_of(options, use);
  const std::string name = without_secrets(url);
  return make_service_store(name.substr(0, name.rfind('/')), make_url_service(std::string(url), settings), settings);
}

std::shared_ptr<Store> make_service_store(std::string name, std::shared_ptr<Service> service,
                                          const HttpSettings& settings) {
  static_cast<void>(curl());
  return std::make_shared<HttpStore>(std::move(name), std::move(service), settings);
}

}  // namespace damacy::http
