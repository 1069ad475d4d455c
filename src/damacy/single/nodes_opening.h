// Opens many nodes together, and gives what they are in the order of their uris. The documents of remote stores are
// asked for ahead of the threads that open them; other stores are asked by many threads. Knows uris and results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "damacy/core/clock.h"
#include "damacy/core/fork.h"
#include "damacy/fetch/readers.h"
#include "damacy/store/mounts.h"
#include "damacy/zarr/node_info.h"

namespace damacy {

// One thread takes what is opened; close() may be called by any.
class NodesOpening {
 public:
  enum class What : std::uint8_t { nodes, arrays };  // array_info() refuses nodes that are no arrays
  struct Opened {
    std::optional<NodeInfo> node;  // of an array only `array`
    MountedUri place;              // where it was found
    std::exception_ptr error;      // where it could not be opened
  };

  NodesOpening(std::vector<std::string> uris, What what,
               const std::shared_ptr<const Clock>& clock = std::make_shared<SteadyClock>());
  ~NodesOpening();
  NodesOpening(const NodesOpening&) = delete;
  NodesOpening& operator=(const NodesOpening&) = delete;

  // The next ones that are there, at most `most`; empty only if all were taken. Calls `while_waiting` on this thread
  // about twenty times a second; what it throws ends the wait, and nothing is lost. Throws Error(shutdown) after
  // close().
  std::vector<Opened> take(std::size_t most, const std::function<void()>& while_waiting);
  // Ends what is under way, and begins nothing more. Idempotent.
  void close() noexcept;

 private:
  class Calls;

  const std::uint64_t epoch_ = fork_epoch();
  const std::shared_ptr<Calls> calls_;
  std::shared_ptr<Readers> readers_;
};

}  // namespace damacy
