// The exchanges of one rank that are in flight: which slot each uses, which number its messages have, and whether calls
// are refused. Knows numbers; not buffers or messages.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace damacy::halo {

// The slots of an exchanger. An exchange is posted, then sent, then finished.
class InFlight {
 public:
  // Throws Error(inval) unless `depth` is at least 1.
  explicit InFlight(int depth);

  // Throws Error(inval, kMisuse) with the reason if every call is refused.
  void check() const;
  // The slot of the next exchange. An exchange that failed before it sent is retried in its own slot, because messages
  // match receives in the order in which the receives were posted. Throws if `depth` exchanges are in flight.
  int next() const;
  void post(int slot) noexcept { posted_ = slot; }
  void send(int slot);
  // Of the exchanges that were sent and not finished, the one that was sent first has this slot.
  bool is_oldest(int slot) const { return !sent_.empty() && sent_.front() == slot; }
  void finish(int slot);

  // Every call is refused from now on: peers may have messages of an exchange that failed.
  void refuse_after(const std::string& failure);
  void close() { refusal_ = "this exchanger is closed"; }

 private:
  std::size_t depth_;
  std::vector<int> free_;      // the next one is last
  std::vector<int> sent_;      // and not finished; the first one is first
  std::optional<int> posted_;  // of an exchange that has not sent; its receives may be posted
  std::string refusal_;
};

// Numbers the messages of one phase to each peer, so that the n-th that is sent is the n-th that the peer receives,
// although both may use different slots.
class MessageNumbers {
 public:
  // The next exchange uses this slot. Again for a retry.
  void post(int slot, int phase) { numbers_[{slot, phase}] = sent_[phase]; }
  void send(int phase) { ++sent_[phase]; }
  std::int64_t of(int slot, int phase) const { return numbers_.at({slot, phase}); }

 private:
  std::map<int, std::int64_t> sent_;                     // exchanges, by phase
  std::map<std::pair<int, int>, std::int64_t> numbers_;  // of the current exchange, by slot and phase
};

}  // namespace damacy::halo
