// The read engine: requests in, completions out, on its own threads. Knows objects, ranges and memory; not zarr.
// Readers of batches and of selections use it (fetch/). The contract: tests/conformance/engine_suite.h.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>

#include "damacy/core/clock.h"
#include "damacy/core/error.h"
#include "damacy/store/storage_watch.h"
#include "damacy/store/store.h"

namespace damacy {

// One contiguous read.
struct Part {
  std::shared_ptr<Object> object;
  std::uint64_t offset = 0;
  std::span<std::byte> dst;
};

// A read with its completion. prepare() and complete() run on one engine thread, one after the other, so complete()
// finds the bytes in that core's cache; for a request that can be sent see below. The engine owns a request from
// submit() to the end of complete().
class Request : public Abandonable {
 public:
  // Opens the object and borrows memory; may wait for memory. complete() receives what it throws. A part with an empty
  // `dst` reads nothing.
  virtual Part prepare(std::size_t thread, std::stop_token stop) = 0;
  // `failure` is null if all of part.dst was read. Called exactly once, also if the engine stops first (shutdown). For
  // an abandoned request it is not called, or does not run to its end. Throws nothing but Abandoned, and that on an
  // engine's thread only.
  virtual void complete(std::size_t thread, const Part& part, const Error* failure) = 0;
  // Makes the calls of a read, which waits for storage. A request may end them early, by an error.
  virtual void while_wanted(const std::function<void()>& calls) const { calls(); }
  // Whether it mostly copies bytes. An engine may limit how many such requests run at once.
  virtual bool only_reads() const noexcept { return false; }
  // Whether its object reads without a thread (Object::can_start_reads). Then the engine may prepare it on a thread of
  // its own, whose number is no reader's, start its read, and complete it on a reader after the bytes have landed.
  virtual bool can_be_sent() const noexcept { return false; }
  // Whether abandon() may end it. Its memory is freed with the request.
  virtual bool can_be_abandoned() const noexcept { return false; }
  void abandon(const Error&) noexcept override {}
};

class Engine {
 public:
  virtual ~Engine() = default;  // stops: running requests end, waiting ones complete with Error(shutdown)
  // If there is no memory to queue it, the request completes as failed on this thread.
  virtual void submit(std::unique_ptr<Request> request) = 0;         // behind all others
  virtual void submit_urgent(std::unique_ptr<Request> request) = 0;  // before those not yet started
  virtual std::size_t threads() const noexcept = 0;                  // complete()'s `thread` is below this

  // Abandons requests whose storage call has run for `age`; new threads replace theirs. `stuck`: threads of other
  // owners are stuck. Returns whether threads of this engine are.
  virtual bool abandon_overdue(Clock::Time age, bool stuck) noexcept = 0;
  // Like the destructor, but detaches threads that are still in a storage call after `patience`. They keep `keep` alive
  // until the last of them returns. True if there are detached threads, also from before.
  virtual bool stop(std::chrono::steady_clock::time_point patience, std::shared_ptr<void> keep) noexcept = 0;
};

// N threads with positional reads, at most `readers` of them at requests that only read. Throws Error(oom, "memory")
// when a thread cannot be started.
std::unique_ptr<Engine> make_thread_engine(std::size_t threads, std::size_t readers = ~std::size_t{0},
                                           std::shared_ptr<const Clock> clock = std::make_shared<SteadyClock>());

}  // namespace damacy
