#include "damacy/store/s3/credential_answers.h"

#include <algorithm>
#include <cerrno>

#include "damacy/core/formatted.h"
#include "damacy/core/limits.h"
#include "damacy/store/http/times.h"
#include "damacy/store/http/transfer.h"
#include "damacy/store/storage_watch.h"

namespace damacy::s3 {
namespace {

using std::chrono::milliseconds;

constexpr std::int64_t kRefreshSeconds = 300;  // before they expire, one caller asks for new ones
constexpr std::int64_t kWaitSeconds = 60;      // before they expire, all wait
constexpr std::int64_t kLongestPauseSeconds = 60;
constexpr std::chrono::seconds kRefreshTimeout{10};                          // while the old ones are valid
constexpr milliseconds kLook{20};                                            // for work that was given up
constexpr std::chrono::seconds kAbandoned{Limits::storage_operation_s - 1};  // about when readers are given up
constexpr milliseconds kLateWait{1000};  // for a call after one that did not answer in time
constexpr milliseconds kLongestLatePause{60'000};
constexpr std::chrono::seconds kJustRenewed{60};  // requests that were signed before may still be under way

bool is_same(const Credentials& one, const Credentials& other) {
  return one.access_key_id == other.access_key_id && one.secret_access_key == other.secret_access_key &&
         one.session_token == other.session_token && one.bearer_token == other.bearer_token;
}

}  // namespace

Error no_credentials(std::string message) {
  return Error(Status::io, std::move(message), "credentials");
}

Error late_credentials() {
  return Error(Status::io, "no credentials came in time", "deadline").with_errno(ETIMEDOUT);
}

// While one lives, its thread asks. Its constructor waits for that of another thread.
class Answers::Turn {
 public:
  Turn(Answers& answers, Time end) : answers_(answers) {
    Lock lock(answers_.mutex_);
    while (answers_.is_asking_) {
      if (std::chrono::steady_clock::now() >= end) throw late_credentials();
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

  Answers& answers_;
};

std::optional<Credentials> Answers::current(Time end) {
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
  } catch (const Abandoned&) {  // this thread timed out, perhaps before `end`, or its work was cancelled
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

bool Answers::is_ready() {
  const Lock lock(mutex_);
  return !links_->late || may_use();
}

std::optional<Credentials> Answers::last() {
  const Lock lock(mutex_);
  return known_;
}

bool Answers::renew(const Credentials& used) {
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

std::string Answers::described() {
  const Lock lock(mutex_);
  return described_;
}

// After a call that did not answer in time, the requests of a batch do not wait for one each, but fail at once. Once
// in a while one calls again, for a short time. Throws Error(io, "deadline").
Answers::Time Answers::end_while_late() {
  if (!is_late_ || links_->late->is_there()) return Time::max();
  const Time now = std::chrono::steady_clock::now();
  if (now < next_call_) throw late_credentials();
  return now + kLateWait;
}

void Answers::note_late() {
  next_call_ = std::chrono::steady_clock::now();
  if (is_late_) next_call_ += std::exchange(late_pause_, std::min(2 * late_pause_, kLongestLatePause));
  is_late_ = true;
}

// Requests may still be answered that were signed with those before.
bool Answers::is_renewed() {
  return renewed_at_ && std::chrono::steady_clock::now() - *renewed_at_ < kJustRenewed;
}

// They are valid, and it is not time to ask for others.
bool Answers::may_use() {
  const std::int64_t left = seconds_left();
  return is_known_ && left > 0 && (left > kRefreshSeconds || http::unix_now() < next_ask_unix_s_);
}

std::int64_t Answers::seconds_left() {
  if (!known_ || !known_->expires_unix_s) return std::int64_t{1} << 40;
  return *known_->expires_unix_s - http::unix_now();
}

// In its turn.
std::optional<Credentials> Answers::ask(Time end) {
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
    tried += formatted("{}{}{}", tried.empty() ? "" : ", ", link.name, note.empty() ? "" : formatted(" ({})", note));
  }
  if (!found && is_required) throw no_credentials(formatted("no credentials in: {}", tried));
  const Lock lock(mutex_);
  if (found) winner_ = at;
  if (known_ && found && !is_same(*known_, *found)) renewed_at_ = std::chrono::steady_clock::now();
  known_ = found;
  is_known_ = true;
  ++count_;
  pause_s_ = kAgainSeconds;
  is_late_ = false;
  late_pause_ = kLatePause;
  described_ = found ? links_->all[at].name : formatted("none in: {}", tried);
  return known_;
}

}  // namespace damacy::s3
