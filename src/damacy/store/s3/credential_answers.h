// What the sources of credentials gave: kept until it expires, asked for again in time, by one thread at a time. Knows
// when to ask and how long to wait; not whom.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "damacy/core/error.h"
#include "damacy/core/mutex.h"
#include "damacy/store/store_options.h"

namespace damacy::s3 {

// Error(io, "credentials").
[[nodiscard]] Error no_credentials(std::string message);
// Error(io, "deadline").
[[nodiscard]] Error late_credentials();

// One link of the chain. What it cannot give, and why, is `note`.
struct Link {
  std::string name;
  // Empty: it has nothing, and the next one is asked. Throws Error: it has something that is wrong.
  std::function<std::optional<Credentials>(std::string& note, std::chrono::steady_clock::time_point end)> ask;
};

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

// What a chain gave. One thread asks at a time; others wait for it. Functions as those of CredentialSource.
class Answers {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit Answers(std::shared_ptr<const Links> links) : links_(std::move(links)) {}

  std::optional<Credentials> current(Time end);
  bool is_ready();
  std::optional<Credentials> last();
  bool renew(const Credentials& used);
  std::string described();

 private:
  class Turn;

  Time end_while_late() DAMACY_REQUIRES(mutex_);
  void note_late() DAMACY_REQUIRES(mutex_);
  bool is_renewed() DAMACY_REQUIRES(mutex_);
  bool may_use() DAMACY_REQUIRES(mutex_);
  std::int64_t seconds_left() DAMACY_REQUIRES(mutex_);
  std::optional<Credentials> ask(Time end);

  // Both are doubled. After a refresh that failed while the old ones are valid; between calls of a callable that is
  // late.
  static constexpr std::int64_t kAgainSeconds = 10;
  static constexpr std::chrono::milliseconds kLatePause{1000};

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
  std::chrono::milliseconds late_pause_ DAMACY_GUARDED_BY(mutex_) = kLatePause;
  std::string described_ DAMACY_GUARDED_BY(mutex_);
};

}  // namespace damacy::s3
