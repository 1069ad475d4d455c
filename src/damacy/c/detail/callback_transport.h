// Messages of halo exchange by functions of a C caller. Knows ranks and bytes; not what a message has.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "damacy/c.h"
#include "damacy/halo/message_channels.h"
#include "damacy/halo/transport.h"

namespace damacy::detail {

class CallbackTransport final : public halo::Transport {
 public:
  // Throws Error(inval, "arguments") for a structure of another size, or without one of the functions.
  // `timeout`: of the digests of all peers.
  CallbackTransport(const damacy_halo_callbacks& callbacks, std::chrono::milliseconds timeout);
  std::unique_ptr<halo::Channels> open(std::int64_t rank, halo::Rounds rounds) override;

 private:
  const damacy_halo_callbacks callbacks_;
  const std::chrono::milliseconds timeout_;
  const std::shared_ptr<halo::MessageTags> tags_;  // of all ranks that open it
};

}  // namespace damacy::detail
