// The engine that reads: requests in, completions out, on threads of its own. Knows objects, ranges and memory; not
// zarr. Three users: the pipeline, file I/O, the zarr codec pipeline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>

#include "damacy/core/error.h"
#include "damacy/io/store.h"

namespace damacy {

// One contiguous read.
struct Part {
  std::shared_ptr<Object> object;
  std::uint64_t offset = 0;
  std::span<std::byte> dst;
};

// A read that knows what comes after it. Both functions run on one engine thread, one after the other, so what
// complete() does with the bytes finds them in that core's cache. The engine owns a request from submit() to the end of
// complete().
class Request {
 public:
  virtual ~Request() = default;
  // Opens the object and borrows memory; may wait for memory. Throws what complete() is then told.
  // A part with an empty `dst` reads nothing.
  virtual Part prepare(std::size_t thread, std::stop_token stop) = 0;
  // `failure` is null when all of part.dst was read. Called exactly once, also when the engine stops first (shutdown).
  virtual void complete(std::size_t thread, const Part& part, const Error* failure) noexcept = 0;
  // Copies bytes and hardly computes: an engine may bound how many of these run at once.
  virtual bool only_reads() const noexcept { return false; }
};

class Engine {
 public:
  virtual ~Engine() = default;  // stops: running requests end, waiting ones complete with Error(shutdown)
  // Without memory for it, a request completes as failed on this thread.
  virtual void submit(std::unique_ptr<Request> request) = 0;         // behind all others
  virtual void submit_urgent(std::unique_ptr<Request> request) = 0;  // before those not yet started
  virtual std::size_t threads() const noexcept = 0;                  // complete()'s `thread` is below this
};

// N threads with positional reads, at most `readers` of them at requests that only read. Throws Error(oom, "memory")
// when a thread cannot be started.
std::unique_ptr<Engine> make_thread_engine(std::size_t threads, std::size_t readers = ~std::size_t{0});

}  // namespace damacy
