// What a thread of an engine does with one request: runs it from beginning to end, or completes one whose read has
// landed. Knows requests and parts; not queues or other threads.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include "damacy/device/trace.h"
#include "damacy/store/engine.h"
#include "damacy/store/storage_watch.h"

namespace damacy::detail {

// A request whose read is under way without a thread.
struct Sent {
  std::unique_ptr<Request> request;
  Part part;
  std::unique_ptr<StartedRead> read;
  std::optional<Error> failure;  // of prepare() or start_read()
  bool has_landed = false;
};

// On the thread of that number.
inline void complete(Sent& sent, std::size_t thread) noexcept {
  Request& request = *sent.request;
  const StorageWatch::Scope scope(request.can_be_abandoned() ? &request : nullptr);
  try {
    if (!sent.failure && sent.read)
      sent.failure = failure_of([&] {
        const TraceRange stage("damacy read");
        request.while_wanted([&] { sent.read->finish(); });
      });
    request.complete(thread, sent.part, sent.failure ? &*sent.failure : nullptr);
  } catch (const Abandoned&) {
  }
}

inline void run(Request& request, std::size_t thread, std::stop_token stop) noexcept {
  const StorageWatch::Scope scope(request.can_be_abandoned() ? &request : nullptr);
  try {
    Part part;
    const auto failure = failure_of([&] {
      part = request.prepare(thread, stop);
      if (part.dst.empty()) return;
      const TraceRange stage("damacy read");
      request.while_wanted([&part] { part.object->read_exact(part.offset, part.dst); });
    });
    request.complete(thread, part, failure ? &*failure : nullptr);
  } catch (const Abandoned&) {
  }
}

}  // namespace damacy::detail
