#include "damacy/store/http/http_object.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy::http {
namespace {

// Whether an answer has the range, or the whole object as the range, of the version `known`.
bool fits(const Head& head, const Request& request, const void* known) {
  const auto& version = *static_cast<const Version*>(known);
  if (!version.is_of(head)) return false;
  if (is_range(head, request.first, request.memory.size(), version.size)) return true;
  const bool whole = request.first == 0 && request.memory.size() == version.size;
  return whole && head.status == 200 && is_plain(head) && !head.range && head.length == version.size;
}

}  // namespace

// A read whose requests are under way together, and wait for no thread. Where a first attempt cannot be made, finish()
// makes all.
class HttpObject::Started final : public StartedRead {
 public:
  Started(std::shared_ptr<HttpObject> object, std::uint64_t offset, std::span<std::byte> dst,
          std::function<void()> landed)
      : object_(std::move(object)), offset_(offset), dst_(dst) {
    is_there_ = object_->has(offset, dst.size());
    if (is_there_) object_->copy_head(offset_, dst_);
    divide();
    // The last one calls `landed`; one more keeps it until all are begun.
    landing_->left = parts_.size() + 1;
    const auto ended = [landing = landing_, clock = object_->origin_->settings().clock, landed = std::move(landed)] {
      if (landing->left.fetch_sub(1) > 1) return;
      landing->at = clock->now();
      landed();
    };
    for (Part& part : parts_) {
      const auto failure =
          damacy::failure_of([&] { part.first = object_->first_attempt(part.offset, part.dst, ended); });
      if (failure || !part.first) ended();
    }
    ended();
  }
  bool is_under_way() const {
    return std::ranges::all_of(parts_, [](const Part& part) { return part.first.has_value(); });
  }
  void finish() override {
    if (!is_there_) return object_->read_exact(offset_, dst_);  // says so
    // What waited for a batch that takes it has not lost the time of its repeats.
    const Clock::Time landed = landing_->at;
    const Clock::Time waited = landed > Clock::Time(0) ? object_->origin_->settings().clock->now() - landed : landed;
    for (Part& part : parts_) {
      if (part.first) part.first->began += waited;
      object_->fetch(part.offset, part.dst, std::move(part.first));
    }
  }

 private:
  struct Part {
    std::uint64_t offset;
    std::span<std::byte> dst;
    std::optional<FirstAttempt> first{};
  };

  void divide() {
    if (!is_there_ || dst_.empty()) return;
    const std::size_t count = (dst_.size() - 1) / object_->origin_->settings().request_bytes + 1;
    const std::size_t each = (dst_.size() - 1) / count + 1;
    parts_.reserve(count);
    for (std::size_t at = 0; at < dst_.size(); at += each)
      parts_.push_back({offset_ + at, dst_.subspan(at, std::min(each, dst_.size() - at))});
  }

  struct Landing {
    std::atomic<std::size_t> left{0};
    std::atomic<Clock::Time> at{};  // 0: some have not ended
  };

  const std::shared_ptr<HttpObject> object_;
  const std::shared_ptr<Landing> landing_ = std::make_shared<Landing>();
  std::uint64_t offset_;  // of what is not there yet
  std::span<std::byte> dst_;
  bool is_there_ = false;  // the object has the range
  std::vector<Part> parts_;
};

HttpObject::HttpObject(std::shared_ptr<const Origin> origin, std::string key, Version version, FirstBytes head)
    : origin_(std::move(origin)),
      key_(std::move(key)),
      version_(std::move(version)),
      stamp_(version_.stamp()),
      counts_(head.counts),
      reads_(head.reads),
      head_(std::make_shared<const HeadBytes>(std::move(head))) {
  const Lock lock(mutex_);
  count_announced();
}

HttpObject::~HttpObject() {
  counts_->announced -= announced_;
}

// After the head or its reads have changed.
void HttpObject::count_announced() {
  const std::size_t now = head_ && reads_ > 0 ? head_->block.capacity() : 0;
  counts_->announced += now - announced_;  // may wrap
  announced_ = now;
}

void HttpObject::read_exact(std::uint64_t offset, std::span<std::byte> dst) {
  const std::uint64_t left = offset < version_.size ? version_.size - offset : 0;
  if (left < dst.size())
    throw Error(Status::io, formatted("short read: {} of {} bytes", left, dst.size()), "short-read")
        .at_bytes(offset, offset + dst.size())
        .at_key(key_)
        .at_store(origin_->name());
  if (dst.size() > origin_->settings().request_bytes) return Started(shared_from_this(), offset, dst, [] {}).finish();
  copy_head(offset, dst);
  if (!dst.empty()) fetch(offset, dst);
}

std::unique_ptr<StartedRead> HttpObject::start_read(std::uint64_t offset, std::span<std::byte> dst,
                                                    std::function<void()> landed) {
  return std::make_unique<Started>(shared_from_this(), offset, dst, landed);
}

std::unique_ptr<StartedRead> HttpObject::try_read(std::span<std::byte> dst) {
  auto read = std::make_unique<Started>(shared_from_this(), 0, dst, [] {});
  return read->is_under_way() ? std::move(read) : nullptr;
}

std::string HttpObject::unless_it_is() const {
  return version_.tag.empty() ? std::string() : formatted("If-None-Match: {}", version_.tag);
}

void HttpObject::drop_head() {
  const Lock lock(mutex_);
  head_.reset();
  reads_ = 0;  // those of the next head are counted anew
  count_announced();
}

bool HttpObject::forget_piece(const StoredPiece& piece) noexcept {
  const auto head = this->head();
  if (!head || piece.offset + piece.bytes <= head->at || piece.offset >= head->at + head->block.size()) return false;
  drop_head();
  has_changed_ = true;  // who opens it next gets first bytes with it again
  return true;
}

std::shared_ptr<const HttpObject::HeadBytes> HttpObject::head() const {
  const Lock lock(mutex_);
  return head_;
}

bool HttpObject::has(std::uint64_t offset, std::uint64_t bytes) const {
  return offset <= version_.size && bytes <= version_.size - offset;
}

// What is there already; the rest stays.
void HttpObject::copy_head(std::uint64_t& offset, std::span<std::byte>& dst) {
  const auto head = this->head();
  if (!head || offset < head->at || offset - head->at >= head->block.size()) return;
  const auto at = static_cast<std::size_t>(offset - head->at);
  const auto here = std::min<std::size_t>(head->block.size() - at, dst.size());
  std::memcpy(dst.data(), head->block.data() + at, here);
  dst = dst.subspan(here);
  offset += here;
  has_read(*head, offset);
}

HeldBytes HttpObject::held(std::uint64_t offset, std::uint64_t bytes) {
  const auto head = this->head();
  if (!head || bytes == 0 || offset < head->at || !has(offset, bytes)) return {};
  const std::uint64_t at = offset - head->at;
  if (at > head->block.size() || bytes > head->block.size() - at) return {};
  has_read(*head, offset + bytes);
  return {{head->block.data() + at, static_cast<std::size_t>(bytes)}, head};
}

void HttpObject::add_reads(std::size_t count) {
  const Lock lock(mutex_);
  if (head_) reads_ += count;
  count_announced();
}

void HttpObject::remove_read() {
  const Lock lock(mutex_);
  if (reads_ > 0 && --reads_ == 0) head_.reset();
  count_announced();
}

bool HttpObject::has_reads() const {
  const Lock lock(mutex_);
  return head_ && reads_ > 0;
}

void HttpObject::take_head(FirstBytes head) {
  const std::size_t reads = head.reads;
  take_head(std::make_shared<const HeadBytes>(std::move(head)), reads);
}

void HttpObject::take_head_of(HttpObject& other) {
  std::shared_ptr<const HeadBytes> head;
  std::size_t reads = 0;
  {
    const Lock lock(other.mutex_);
    head = std::move(other.head_);
    reads = std::exchange(other.reads_, 0);
    other.count_announced();
  }
  take_head(std::move(head), reads);
}

void HttpObject::take_head(std::shared_ptr<const HeadBytes> head, std::size_t reads) {
  const Lock lock(mutex_);
  if (!head_) head_ = std::move(head);
  if (head_) reads_ += reads;
  count_announced();
}

// Up to `end`. A large head is read once, unless reads were announced.
void HttpObject::has_read(const HeadBytes& head, std::uint64_t end) {
  if (end != head.at + head.block.size() || head.block.size() <= origin_->settings().head_bytes) return;
  const Lock lock(mutex_);
  if (reads_ == 0) head_.reset();
}

Wanted HttpObject::wanted(std::uint64_t offset, std::span<std::byte> dst) const {
  return {key_, offset, dst, version_.condition(), &fits, std::shared_ptr<const void>(shared_from_this(), &version_)};
}

// Empty: there is nothing to ask for, or the origin wants no request now. `landed` is called only for another.
std::optional<FirstAttempt> HttpObject::first_attempt(std::uint64_t offset, std::span<std::byte> dst,
                                                      const std::function<void()>& landed) const {
  if (dst.empty() || !has(offset, dst.size())) return std::nullopt;
  return origin_->begin(wanted(offset, dst), landed);
}

// A body that ends early is continued at the next byte.
void HttpObject::fetch(std::uint64_t offset, std::span<std::byte> dst, std::optional<FirstAttempt> first) {
  const std::uint64_t begin = offset, end = offset + dst.size();
  const auto attempt_one = [&](Attempt& attempt) -> std::optional<Failure> {
    const auto transfer = origin_->run(wanted(offset, dst), attempt, first);
    const Head& head = transfer->head();
    attempt.answered(head);
    offset += transfer->landed();
    dst = dst.subspan(transfer->landed());
    if (dst.empty()) return std::nullopt;
    if (version_.is_changed(head)) return Failure{"changed", "the object is not the version that was opened", false};
    bool absent = false;
    if (auto failure = origin_->failure_of(key_, *transfer, /*known=*/true, absent)) return failure;
    if (transfer->code() != curl_code::ok && transfer->landed() == 0) return broken(*transfer);
    return ended_early(*transfer, dst.size());
  };
  try {
    origin_->attempts(key_, dst.size(), attempt_one, first);
  } catch (const Error& e) {
    if (e.where().reason == "changed") has_changed_ = true;
    throw Error(e).at_bytes(begin, end);
  }
}

}  // namespace damacy::http
