// The copies of one rank's exchanges, with addresses: in each phase from the arrays to the messages of all peers, and
// back. Refuses arrays that overlap. Knows addresses; not memory, nor when copies run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "damacy/copy/copy_plan.h"
#include "damacy/halo/exchange_plan.h"
#include "damacy/halo/wire.h"

namespace damacy::halo {

// One thread at a time uses it.
class ExchangeCopies {
 public:
  struct Copies {
    std::shared_ptr<const copy::Plan> plan;  // null: there is nothing to copy
    copy::Bases bases;
  };
  struct Phase {
    Copies pack;
    Copies unpack;
  };
  using Phases = std::shared_ptr<const std::vector<Phase>>;

  // `slots`: exchanges that may be in flight, each with messages of its own.
  ExchangeCopies(const ExchangePlan& plan, int slots);

  std::size_t phases() const noexcept { return plans_.size(); }
  // Bytes of the messages of a phase, in ascending order of peers.
  const std::vector<std::int64_t>& send_bytes(std::size_t phase) const { return plans_.at(phase).pack->buffer_bytes; }
  const std::vector<std::int64_t>& receive_bytes(std::size_t phase) const {
    return plans_.at(phase).unpack->buffer_bytes;
  }
  // Where messages are, in ascending order of peers.
  void set_messages(int slot, std::size_t phase, Addresses sends, Addresses receives);

  // Between these arrays and the messages of the slot. Throws Error(inval) for arrays that overlap. Those of the latest
  // arrays are kept.
  Phases of(int slot, const Addresses& arrays);

 private:
  struct Plans {
    std::shared_ptr<const Compiled> pack, unpack;
  };
  struct Messages {
    Addresses sends, receives;
  };
  struct Known {
    int slot;
    Addresses arrays;
    Phases phases;
  };
  static Copies bound(const Compiled& compiled, const Addresses& arrays, const Addresses& messages);

  std::vector<Plans> plans_;                     // by phase
  std::vector<std::vector<Messages>> messages_;  // by slot, then by phase
  std::deque<Known> known_;                      // newest first
};

}  // namespace damacy::halo
