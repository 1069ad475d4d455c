#include "damacy/store/http/http_store.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <thread>
#include <unordered_map>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "damacy/core/log.h"
#include "damacy/core/mutex.h"
#include "damacy/core/text.h"
#include "damacy/store/http/transfer.h"
#include "damacy/store/http/verdict.h"
#include "damacy/store/storage_watch.h"

namespace damacy::http {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;
constexpr std::size_t kKeptObjects = 1024;     // of a store: what is known of them
constexpr std::size_t kExpectedObjects = 256;  // of a store: those whose first request is under way
constexpr std::size_t kExpectedBytesOfOne = 512 << 10, kExpectedBytes = 32 << 20;
constexpr std::size_t kKeptHeads = 128;         // of a store: those whose first bytes are kept
constexpr std::size_t kListingBytes = 1 << 20;  // of a page
constexpr int kListingPages = 1000;

std::uint64_t hash_of(std::string_view text, std::uint64_t seed) {  // FNV-1a
  std::uint64_t hash = 14695981039346656037u ^ seed;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

struct Version {
  std::string tag;       // a strong ETag, or empty
  std::string modified;  // Last-Modified
  std::uint64_t size = 0;

  // The line that makes the server check it.
  std::string condition() const {
    if (tag.empty() && modified.empty()) return {};
    return tag.empty() ? text("If-Unmodified-Since: ", modified) : text("If-Match: ", tag);
  }
  bool is_of(const Head& head) const { return tag.empty() ? head.modified == modified : head.tag == tag; }
  Stamp stamp() const {
    const std::string all = text(tag, "\n", tag.empty() ? modified : std::string());
    return {hash_of(all, 0), hash_of(all, 0x9e3779b97f4a7c15u), size, 0};
  }
};

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

// Plain HTTP: keys below a uri.
class PlainService final : public Service {
 public:
  PlainService(std::string root, const HttpSettings& settings)
      : root_(std::move(root)), headers_(settings.headers), absent_status_(settings.absent_status) {}

  Address address(std::string_view key, Time) override { return {text(root_, "/", encoded(key)), headers_}; }

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
};

// The requests of one store: attempts, pauses and verdicts.
class Origin {
 public:
  Origin(std::string name, std::shared_ptr<Service> service, const HttpSettings& settings)
      : name_(std::move(name)),
        service_(std::move(service)),
        settings_(settings),
        limits_{
            settings.connect_timeout, settings.stall_timeout,      find_certificates(settings.ca_file, settings.is_aws),
            settings.proxy,           settings.first_byte_timeout, settings.max_requests} {}

  const std::string& name() const { return name_; }
  Service& service() const { return *service_; }
  const HttpSettings& settings() const { return settings_; }

  // One attempt of a read: what the read tells, and what the attempt finds.
  struct Attempt {
    SteadyTime end;  // of the read
    std::shared_ptr<Pace> pace;
    std::optional<int> wished = std::nullopt;  // by the server: seconds until it wants the next one
    int status = 0;                            // of the answer
    std::string request_id{};

    void answered(const Head& head) {
      wished = head.pause();
      status = head.status;
      request_id = one_line(head.request_id, 100);
    }
  };

  // When a read that begins now must have ended.
  SteadyTime end_of(std::uint64_t bytes) const {
    return std::chrono::steady_clock::now() + settings_.deadline + std::chrono::milliseconds(bytes / 1000);
  }

  // Calls `attempt` until it returns no Failure. `began`: of a read whose first attempt is under way.
  template <class Try>
  void attempts(std::string_view key, std::uint64_t bytes, Try attempt, std::optional<Clock::Time> began = {}) {
    const Clock& clock = *settings_.clock;
    const Clock::Time begin = began.value_or(clock.now());
    Repeats repeats(settings_.attempts, begin, begin + settings_.deadline + std::chrono::milliseconds(bytes / 1000),
                    *settings_.chance);
    for (;;) {
      Attempt now{std::chrono::steady_clock::now() + (repeats.end() - clock.now()), nullptr};
      const std::optional<Failure> failure = attempt(now);
      if (!failure) {
        if (now.pace) now.pace->succeeded();
        return;
      }
      const auto wait = repeats.after(*failure, now.wished, clock.now(), *now.pace);
      if (!wait)
        throw error(*failure, key, repeats.attempts(), clock.now() - begin)
            .with_http(now.status, now.request_id, repeats.attempts());
      sleep_until(clock.now() + *wait);
    }
  }

  // Sets the pace of the origin that `url` is of, and waits until the origin takes requests.
  void enter(Attempt& attempt, std::string_view key, const std::string& url) const {
    attempt.pace = pace_of(url);
    if (attempt.pace->is_first_use()) log_first_use(url);
    if (const std::string& tried = limits_.certificates.missing; !tried.empty() && url.starts_with("https"))
      throw Error(Status::io, formatted("no CA certificates; looked for: {}", tried), "tls")
          .at_key(key)
          .at_store(name_);
    const Clock::Time held = attempt.pace->held_until() - settings_.clock->now();
    if (held <= Clock::Time(0)) return;
    if (std::chrono::steady_clock::now() + held >= attempt.end)
      throw Error(Status::io,
                  formatted("the server wants no request for {} s more",
                            std::chrono::duration_cast<std::chrono::seconds>(held).count() + 1),
                  "throttled")
          .at_key(key)
          .at_store(name_);
    sleep_until(settings_.clock->now() + held);
  }

  template <class Call>
  auto located(std::string_view key, Call call) const {
    try {
      return call();
    } catch (const Error& e) {
      throw Error(e).at_key(key).at_store(name_);
    }
  }

  void run(Transfer& transfer, SteadyTime end) const { transfer.run(limits_, end); }
  void start(Transfer& transfer, SteadyTime end, std::function<void()> on_end) const {
    transfer.start(limits_, end, std::move(on_end));
  }

  Request request(std::string_view key, std::uint64_t first, std::span<std::byte> memory, std::string condition,
                  Attempt& attempt) const {
    Address address = located(key, [&] { return service_->address(key, attempt.end); });
    enter(attempt, key, address.url);
    return {std::move(address.url), first, memory, std::move(condition), std::move(address.headers)};
  }

  // Empty if the origin wants no request now.
  std::optional<Request> request_now(std::string_view key, std::uint64_t first, std::span<std::byte> memory,
                                     std::string condition, Attempt& attempt) const {
    Address address = service_->address(key, attempt.end);
    attempt.pace = pace_of(address.url);
    if (attempt.pace->held_until() > settings_.clock->now()) return std::nullopt;
    return Request{std::move(address.url), first, memory, std::move(condition), std::move(address.headers)};
  }

  // Why an answer cannot be used, or nothing: its body was accepted. `absent`, which a known object never is: set if
  // the object is not there.
  std::optional<Failure> failure_of(std::string_view key, const Transfer& transfer, bool known, bool& absent) const {
    auto usual = http::failure_of(transfer, known);
    if (!usual || transfer.head().status < 200 || transfer.accepts() || transfer.is_bad_head()) return usual;
    auto judged = located(key, [&] {
      return service_->refused(key, transfer.head(), transfer.refused_body(), known, std::move(*usual));
    });
    absent = !judged;
    return judged;
  }

 private:
  void log_first_use(const std::string& url) const {
    const bool is_encrypted = url.starts_with("https");
    const std::string origin = url.substr(0, url.find_first_of("/?", url.find("://") + 3));
    log(LogLevel::info,
        formatted("{}: {} from {}{}{}", without_secrets(origin), curl_facts().version, curl_facts().path,
                  is_encrypted ? "; " : "", is_encrypted ? limits_.certificates.shown : std::string()));
  }

  Error error(const Failure& failure, std::string_view key, int attempts, Clock::Time took) const {
    std::string message = failure.text;
    if (std::string_view(failure.reason) == "tls") message += text("; ", limits_.certificates.shown);
    if (attempts > 1) {
      const double seconds = std::chrono::duration<double>(took).count();
      message += formatted(", {} attempts in {} s", attempts, static_cast<double>(static_cast<int>(seconds * 10)) / 10);
    }
    Error made(Status::io, std::move(message), failure.reason);
    if (failure.system_errno != 0) made.with_errno(failure.system_errno);
    if (std::string_view(failure.reason) == "denied") made.with_errno(EACCES);
    if (std::string_view(failure.reason) == "deadline") made.with_errno(ETIMEDOUT);
    return made.at_key(key).at_store(name_);
  }

  void sleep_until(Clock::Time until) const {
    constexpr Clock::Time kLook = std::chrono::milliseconds(50);
    for (Clock::Time now = settings_.clock->now(); now < until; now = settings_.clock->now()) {
      if (is_abandoned()) throw Abandoned();
      std::this_thread::sleep_for(std::min(until - now, kLook));
    }
  }

  const std::string name_;
  const std::shared_ptr<Service> service_;
  const HttpSettings settings_;
  const TransferLimits limits_;
};

// The first attempt of a read, made without a thread that waits. What fails is repeated by the thread that ends the
// read, with the rules of all reads.
struct FirstAttempt {
  std::unique_ptr<Transfer> transfer;
  std::shared_ptr<Pace> pace;
  Clock::Time began{};

  // The transfer after its end.
  std::unique_ptr<Transfer> end(Origin::Attempt& attempt) {
    attempt.pace = pace;
    transfer->wait();
    return std::move(transfer);
  }
};

class HttpObject final : public Object, public std::enable_shared_from_this<HttpObject> {
 public:
  HttpObject(std::shared_ptr<Origin> origin, std::string key, Version version, std::vector<std::byte> head)
      : origin_(std::move(origin)),
        key_(std::move(key)),
        version_(std::move(version)),
        stamp_(version_.stamp()),
        head_(std::make_shared<const std::vector<std::byte>>(std::move(head))) {}

  const Stamp& stamp() const noexcept override { return stamp_; }
  std::string version() const override { return version_.tag.empty() ? version_.modified : version_.tag; }

  void read_exact(std::uint64_t offset, std::span<std::byte> dst) override {
    const std::uint64_t left = offset < version_.size ? version_.size - offset : 0;
    if (left < dst.size())
      throw Error(Status::io, formatted("short read: {} of {} bytes", left, dst.size()), "short-read")
          .at_bytes(offset, offset + dst.size())
          .at_key(key_)
          .at_store(origin_->name());
    copy_head(offset, dst);
    if (!dst.empty()) fetch(offset, dst);
  }

  bool can_start_reads() const noexcept override { return true; }

  std::unique_ptr<StartedRead> start_read(std::uint64_t offset, std::span<std::byte> dst,
                                          std::function<void()> landed) override {
    return std::make_unique<Started>(shared_from_this(), offset, dst, std::move(landed));
  }

  void drop_head() {
    const Lock lock(mutex_);
    head_.reset();
  }

 private:
  std::shared_ptr<const std::vector<std::byte>> head() {
    const Lock lock(mutex_);
    return head_;
  }

  bool has(std::uint64_t offset, std::uint64_t bytes) const {
    return offset <= version_.size && bytes <= version_.size - offset;
  }

  // What is there already; the rest stays.
  void copy_head(std::uint64_t& offset, std::span<std::byte>& dst) {
    const auto head = this->head();
    if (!head || offset >= head->size()) return;
    const auto here = std::min<std::size_t>(head->size() - static_cast<std::size_t>(offset), dst.size());
    std::memcpy(dst.data(), head->data() + offset, here);
    dst = dst.subspan(here);
    offset += here;
    // A whole chunk that came with the first answer is wanted once.
    if (head->size() > origin_->settings().head_bytes && offset == head->size()) drop_head();
  }

  static bool fits(const Head& head, const Request& request, const void* known) {
    const auto& version = *static_cast<const Version*>(known);
    if (!version.is_of(head)) return false;
    if (is_range(head, request.first, request.memory.size(), version.size)) return true;
    const bool whole = request.first == 0 && request.memory.size() == version.size;
    return whole && head.status == 200 && is_plain(head) && !head.range && head.length == version.size;
  }

  // A read of which the first attempt waits for no thread. If that cannot be made, finish() makes all.
  class Started final : public StartedRead {
   public:
    Started(std::shared_ptr<HttpObject> object, std::uint64_t offset, std::span<std::byte> dst,
            std::function<void()> landed)
        : object_(std::move(object)), offset_(offset), dst_(dst) {
      if (object_->has(offset, dst.size())) object_->copy_head(offset_, dst_);
      const auto failure = damacy::failure_of([&] { first_ = object_->first_attempt(offset_, dst_, landed); });
      if (failure || !first_) landed();
    }
    void finish() override {
      if (first_)
        object_->fetch(offset_, dst_, std::move(first_));
      else
        object_->read_exact(offset_, dst_);
    }

   private:
    const std::shared_ptr<HttpObject> object_;
    std::uint64_t offset_;  // of what is not there yet
    std::span<std::byte> dst_;
    std::optional<FirstAttempt> first_;
  };

  // Empty: there is nothing to ask for, or the origin wants no request now. `landed` is called only for another.
  std::optional<FirstAttempt> first_attempt(std::uint64_t offset, std::span<std::byte> dst,
                                            const std::function<void()>& landed) {
    if (dst.empty() || !has(offset, dst.size())) return std::nullopt;
    Origin::Attempt attempt{origin_->end_of(dst.size()), nullptr, std::nullopt};
    const Clock::Time began = origin_->settings().clock->now();
    std::optional<Request> request = origin_->request_now(key_, offset, dst, version_.condition(), attempt);
    if (!request) return std::nullopt;
    FirstAttempt first{std::make_unique<Transfer>(std::move(*request), &HttpObject::fits, &version_), attempt.pace,
                       began};
    origin_->start(*first.transfer, attempt.end, landed);
    return first;
  }

  // A body that ends early is continued at the next byte.
  void fetch(std::uint64_t offset, std::span<std::byte> dst, std::optional<FirstAttempt> first = {}) {
    const std::uint64_t begin = offset, end = offset + dst.size();
    const auto began = first ? std::optional(first->began) : std::nullopt;
    try {
      origin_->attempts(
          key_, dst.size(),
          [&](Origin::Attempt& attempt) -> std::optional<Failure> {
            const auto asked = first ? std::exchange(first, std::nullopt)->end(attempt) : ask(offset, dst, attempt);
            const Transfer& transfer = *asked;
            attempt.wished = transfer.head().pause();
            offset += transfer.landed();
            dst = dst.subspan(transfer.landed());
            if (dst.empty()) return std::nullopt;
            const Head& head = transfer.head();
            const bool is_body = head.status == 200 || head.status == 206;
            const bool is_resized = (is_body || head.status == 416) && head.range && head.range->total &&
                                    *head.range->total != version_.size;
            if (is_resized || (is_body && !version_.is_of(head)))
              return Failure{"changed", "the object is not the version that was opened", false};
            bool absent = false;
            if (auto failure = origin_->failure_of(key_, transfer, /*known=*/true, absent)) return failure;
            if (transfer.code() != curl_code::ok && transfer.landed() == 0) return broken(transfer);
            return ended_early(transfer, dst.size());
          },
          began);
    } catch (const Error& e) {
      throw Error(e).at_bytes(begin, end);
    }
  }

  std::unique_ptr<Transfer> ask(std::uint64_t offset, std::span<std::byte> dst, Origin::Attempt& attempt) {
    auto transfer = std::make_unique<Transfer>(origin_->request(key_, offset, dst, version_.condition(), attempt),
                                               &HttpObject::fits, &version_);
    origin_->run(*transfer, attempt.end);
    return transfer;
  }

  const std::shared_ptr<Origin> origin_;
  const std::string key_;
  const Version version_;
  const Stamp stamp_;
  Mutex mutex_;
  std::shared_ptr<const std::vector<std::byte>> head_ DAMACY_GUARDED_BY(mutex_);  // the first bytes
};

class HttpStore final : public Store {
 public:
  HttpStore(std::string name, std::shared_ptr<Service> service, const HttpSettings& settings)
      : origin_(std::make_shared<Origin>(std::move(name), std::move(service), settings)) {}

  std::string name() const override { return origin_->name(); }
  bool is_remote() const noexcept override { return true; }
  std::string identity() const override { return text(origin_->service().identity(), "\n", origin_->name()); }
  bool is_immutable() const noexcept override { return origin_->settings().immutable; }

  std::shared_ptr<Object> open(std::string_view key) override { return find(key); }

  std::optional<Stamp> stamp(std::string_view key) override {
    const auto object = find(key);
    if (!object) return std::nullopt;
    return object->stamp();
  }

  // Begins what open() asks for. Without memory, or when many are expected, open() asks itself.
  void expect(std::string_view key, std::uint64_t bytes, bool from_end) override {
    std::unique_ptr<Expected> expected;
    const auto failure = damacy::failure_of([&] {
      check_key(key);
      auto one = std::make_unique<Expected>();
      one->head.resize(from_end ? origin_->settings().head_bytes : bytes_to_expect(bytes));
      if (!is_to_expect(key)) return;
      Origin::Attempt attempt{origin_->end_of(one->head.size()), nullptr};
      one->first.began = origin_->settings().clock->now();
      auto request = origin_->request_now(key, 0, one->head, {}, attempt);
      if (!request) return;
      one->first.pace = attempt.pace;
      one->first.transfer = std::make_unique<Transfer>(std::move(*request), &HttpStore::begins, nullptr);
      origin_->start(*one->first.transfer, attempt.end, {});
      expected = std::move(one);
    });
    if (failure || !expected) return;
    const Lock lock(mutex_);
    expected_bytes_ += expected->head.size();
    if (!expected_.try_emplace(std::string(key), std::move(expected)).second) expected_bytes_ -= expected->head.size();
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
  struct Kept {
    std::string key;
    std::shared_ptr<HttpObject> object;  // null: absent
    SteadyTime asked;
  };

  // What is known of the object, if that is not too old; else what the server says.
  std::shared_ptr<HttpObject> find(std::string_view key) {
    check_key(key);
    const SteadyTime now = std::chrono::steady_clock::now();
    {
      const Lock lock(mutex_);
      if (const auto at = places_.find(std::string(key)); at != places_.end()) {
        if (now - at->second->asked < origin_->settings().revalidate_after) {
          kept_.splice(kept_.begin(), kept_, at->second);
          return at->second->object;
        }
      }
    }
    SteadyTime asked = now;
    auto object = ask(key, asked);
    keep(key, object, asked);
    return object;
  }

  void keep(std::string_view key, const std::shared_ptr<HttpObject>& object, SteadyTime asked) {
    const Lock lock(mutex_);
    if (const auto at = places_.find(std::string(key)); at != places_.end()) {
      // An unchanged object stays the same one.
      if (at->second->object && object && at->second->object->stamp() == object->stamp()) {
        at->second->asked = asked;
        return;
      }
      kept_.erase(at->second);
      places_.erase(at);
    }
    kept_.push_front({std::string(key), object, asked});
    places_[std::string(key)] = kept_.begin();
    if (kept_.size() > kKeptHeads)
      if (const auto& late = *std::next(kept_.begin(), kKeptHeads); late.object) late.object->drop_head();
    if (kept_.size() > kKeptObjects) {
      places_.erase(kept_.back().key);
      kept_.pop_back();
    }
  }

  // An object whose first request is under way, with the memory of its answer.
  struct Expected {
    SteadyTime asked = std::chrono::steady_clock::now();
    std::vector<std::byte> head;
    FirstAttempt first{};  // ends before the memory
  };

  bool is_old(SteadyTime asked) const {
    return std::chrono::steady_clock::now() - asked >= origin_->settings().revalidate_after;
  }

  // False: it is known, or under way, or there are too many. Those that were not opened in time make room.
  bool is_to_expect(std::string_view key) {
    if (origin_->settings().revalidate_after <= std::chrono::milliseconds(0)) return false;
    std::vector<std::unique_ptr<Expected>> late;  // ends without the lock
    const Lock lock(mutex_);
    if (expected_.size() >= kExpectedObjects)
      for (auto at = expected_.begin(); at != expected_.end();) {
        if (!is_old(at->second->asked)) {
          ++at;
          continue;
        }
        expected_bytes_ -= at->second->head.size();
        late.push_back(std::move(at->second));
        at = expected_.erase(at);
      }
    const auto at = places_.find(std::string(key));
    const bool is_known = at != places_.end() && !is_old(at->second->asked);
    return !is_known && expected_.size() < kExpectedObjects && !expected_.contains(std::string(key));
  }

  // Of an object of which so many are wanted.
  std::size_t bytes_to_expect(std::uint64_t bytes) {
    const std::size_t usual = origin_->settings().head_bytes;
    const Lock lock(mutex_);
    const auto more = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, kExpectedBytesOfOne));
    return more > usual && expected_bytes_ + more <= kExpectedBytes ? more : usual;
  }

  // Empty: none, or an old one.
  std::unique_ptr<Expected> take_expected(std::string_view key) {
    std::unique_ptr<Expected> expected;
    {
      const Lock lock(mutex_);
      const auto at = expected_.find(std::string(key));
      if (at == expected_.end()) return nullptr;
      expected = std::move(at->second);
      expected_bytes_ -= expected->head.size();
      expected_.erase(at);
    }
    return is_old(expected->asked) ? nullptr : std::move(expected);
  }

  std::unique_ptr<Transfer> ask_head(std::string_view key, std::span<std::byte> head, Origin::Attempt& attempt) {
    auto transfer =
        std::make_unique<Transfer>(origin_->request(key, 0, head, {}, attempt), &HttpStore::begins, nullptr);
    origin_->run(*transfer, attempt.end);
    return transfer;
  }

  // The first bytes of an object, which also say its size and version.
  // `asked`: set to when, if it was asked for earlier.
  std::shared_ptr<HttpObject> ask(std::string_view key, SteadyTime& asked) {
    std::unique_ptr<Expected> expected = take_expected(key);
    if (expected) asked = expected->asked;
    std::vector<std::byte> head = expected ? std::move(expected->head) : std::vector<std::byte>();
    std::optional<FirstAttempt> first = expected ? std::optional(std::move(expected->first)) : std::nullopt;
    const std::optional<Clock::Time> began = first ? std::optional(first->began) : std::nullopt;
    if (!first) head.resize(origin_->settings().head_bytes);
    std::shared_ptr<HttpObject> object;
    const auto attempt_one = [&](Origin::Attempt& attempt) -> std::optional<Failure> {
      const auto asked = first ? std::exchange(first, std::nullopt)->end(attempt) : ask_head(key, head, attempt);
      const Transfer& transfer = *asked;
      const Head& answer = transfer.head();
      attempt.answered(answer);
      const bool empty = answer.status == 416 && answer.range && !answer.range->first && answer.range->total == 0u;
      if (!empty) {
        bool absent = false;
        if (auto failure = origin_->failure_of(key, transfer, /*known=*/false, absent)) return failure;
        if (absent) return std::nullopt;
      }
      Version version{answer.tag, answer.modified, 0};
      if (!empty) version.size = answer.range ? *answer.range->total : answer.length.value_or(0);
      if (const auto wanted = std::min<std::uint64_t>(version.size, head.size()); transfer.landed() < wanted)
        return ended_early(transfer, wanted - transfer.landed());
      if (version.tag.empty() && version.modified.empty() && !origin_->settings().allow_unversioned)
        return Failure{"no-validator",
                       "the answer has neither a strong ETag nor Last-Modified: a change could not be noticed", false};
      head.resize(transfer.landed());
      object = std::make_shared<HttpObject>(origin_, std::string(key), std::move(version), std::move(head));
      return std::nullopt;
    };
    origin_->attempts(key, head.size(), attempt_one, began);
    return object;
  }

  // Empty: there are no listings, or nothing is there.
  std::optional<ListingPage> list_page(std::string_view prefix, std::string_view next, std::vector<std::byte>& memory) {
    std::optional<ListingPage> page;
    origin_->attempts(prefix, kListingBytes, [&](Origin::Attempt& attempt) -> std::optional<Failure> {
      auto address = origin_->located(prefix, [&] { return origin_->service().listing(prefix, next, attempt.end); });
      if (!address) return std::nullopt;
      origin_->enter(attempt, prefix, address->url);
      memory.resize(kListingBytes);
      Request request{std::move(address->url), 0, memory, {}, std::move(address->headers), true};
      Transfer transfer(std::move(request), &HttpStore::is_whole, nullptr);
      origin_->run(transfer, attempt.end);
      attempt.answered(transfer.head());
      bool absent = false;
      if (auto failure = origin_->failure_of(prefix, transfer, /*known=*/false, absent)) return failure;
      if (absent) return std::nullopt;
      if (transfer.code() != curl_code::ok) return Failure{"io", "the listing ended early", true};
      page =
          origin_->service().parse_listing(prefix, {reinterpret_cast<const char*>(memory.data()), transfer.landed()});
      if (!page) return Failure{"io", "the answer is no listing", true, true};
      return std::nullopt;
    });
    return page;
  }

  static bool is_whole(const Head& head, const Request&, const void*) { return head.status == 200 && is_plain(head); }

  static bool begins(const Head& head, const Request& request, const void*) {
    if (head.status == 200 && is_plain(head) && !head.range)
      return head.length && *head.length <= request.memory.size();
    if (!head.range || !head.range->total || *head.range->total == 0) return false;
    return is_range(head, 0, std::min<std::uint64_t>(*head.range->total, request.memory.size()), std::nullopt);
  }

  const std::shared_ptr<Origin> origin_;
  Mutex mutex_;
  std::list<Kept> kept_ DAMACY_GUARDED_BY(mutex_);  // the last used first
  std::unordered_map<std::string, std::unique_ptr<Expected>> expected_ DAMACY_GUARDED_BY(mutex_);
  std::size_t expected_bytes_ DAMACY_GUARDED_BY(mutex_) = 0;
  std::unordered_map<std::string, std::list<Kept>::iterator> places_ DAMACY_GUARDED_BY(mutex_);
};

[[noreturn]] void refuse(std::string_view uri, std::string_view why) {
  throw Error(Status::inval, std::string(why), "uri").at_uri(without_secrets(uri));
}

}  // namespace

void check_http_uri(std::string_view uri) {
  const std::string scheme = scheme_of_uri(uri);
  if (scheme != "http" && scheme != "https") refuse(uri, "the uri is not http:// or https://");
  if (uri.size() >= Limits::uri_bytes) refuse(uri, formatted("is not shorter than {} bytes", Limits::uri_bytes));
  const std::string_view rest = uri.substr(scheme.size() + 3);
  const std::string_view host = rest.substr(0, rest.find('/'));
  if (host.empty()) refuse(uri, "the uri has no host");
  if (host.find('@') != host.npos) refuse(uri, "user info in a uri is not supported");
  if (rest.find_first_of("?#") != rest.npos) refuse(uri, "queries and fragments in a uri are not supported");
  for (const char c : rest)
    if (static_cast<unsigned char>(c) <= 0x20 || static_cast<unsigned char>(c) >= 0x7f)
      refuse(uri, "the uri is not percent-encoded");
}

std::shared_ptr<Store> make_http_store(std::string_view uri, const HttpSettings& settings) {
  check_http_uri(uri);
  while (uri.ends_with('/')) uri.remove_suffix(1);
  return make_service_store(std::string(uri), std::make_shared<PlainService>(std::string(uri), settings), settings);
}

std::shared_ptr<Store> make_service_store(std::string name, std::shared_ptr<Service> service,
                                          const HttpSettings& settings) {
  static_cast<void>(curl());
  return std::make_shared<HttpStore>(std::move(name), std::move(service), settings);
}

}  // namespace damacy::http
