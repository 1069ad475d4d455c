// Which tags of messages are free. Knows numbers; not what is sent with them.
#pragma once

#include <map>

#include "damacy/core/mutex.h"

namespace damacy::halo {

inline constexpr int kHighestTag = 32767;  // that every MPI allows

// The tags of the exchangers of one transport. Each exchanger has tags of its own for what it receives, so that ranks
// may start their exchangers in different orders. Any thread.
class MessageTags {
 public:
  MessageTags(int of_digests, int first, int last) : of_digests_(of_digests), first_(first), last_(last) {}
  MessageTags(const MessageTags&) = delete;
  MessageTags& operator=(const MessageTags&) = delete;

  int of_digests() const noexcept { return of_digests_; }
  // Takes `count` consecutive tags, at least one, and returns the first. Tags that were given back are taken again as
  // late as possible, because a message may have been left behind. Throws Error(inval, kMisuse) if there are not as
  // many, or after refuse().
  int take(int count);
  void give(int first) noexcept;
  // Digests were left behind: they have one tag, so the next exchanger's peers might receive them.
  void refuse() noexcept;

 private:
  const int of_digests_, first_, last_;
  Mutex mutex_;
  int next_ DAMACY_GUARDED_BY(mutex_) = first_;
  bool refuses_ DAMACY_GUARDED_BY(mutex_) = false;
  std::map<int, int> taken_ DAMACY_GUARDED_BY(mutex_);  // how many, by the first
};

}  // namespace damacy::halo
