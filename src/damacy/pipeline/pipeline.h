// The pipeline: samples in, batches out, in order. Python's docstrings document the members. Thread-safe. Failures are
// Error, with position and stage.
#pragma once

#include <chrono>
#include <concepts>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include "damacy/batch/batch.h"
#include "damacy/batch/config.h"
#include "damacy/batch/sample.h"
#include "damacy/fetch/stats.h"

namespace damacy {

class PipelineImpl;
struct PipelineEnvironment;

class Pipeline {
 public:
  explicit Pipeline(Config config);
  Pipeline(Config config, PipelineEnvironment environment);  // for Python's bindings, and for tests
  Pipeline(Pipeline&&) noexcept;
  Pipeline& operator=(Pipeline&&) noexcept;
  ~Pipeline();  // closes

  void push(std::vector<Sample> samples);
  template <std::ranges::input_range Range>
    requires std::constructible_from<Sample, std::ranges::range_reference_t<Range>>
  void push(Range&& range) {
    std::vector<Sample> samples;
    for (auto&& sample : range) samples.emplace_back(std::forward<decltype(sample)>(sample));
    push(std::move(samples));
  }
  // Samples from a callable, until it returns none, or from a source. Called only inside push, pop and flush, for as
  // many samples as there is room.
  void push(std::function<std::optional<Sample>()> next);
  void push(std::shared_ptr<SampleSource> source);

  Batch pop();                                  // waits at most Config::pop_timeout_s
  Batch pop(std::chrono::nanoseconds timeout);  // Error(again, kind pop_timeout) when it passes
  std::optional<Batch> try_pop();               // never waits; empty in place of Error(again)
  // A pop in two steps, for callers that may be interrupted between waiting and taking. The first waits and throws as
  // pop does, but does not take what is due. The second takes it without waiting; empty if nothing is due.
  using Deadline = std::optional<std::chrono::steady_clock::time_point>;
  void await_due(const Deadline& deadline);
  std::optional<Batch> take_due();
  // Requeues an error that the caller could not deliver; the next take_due() throws it first.
  void put_back(std::exception_ptr error);
  void flush();
  // Frees everything except slots that batches and tensors use. stats() and explain() then return the last values.
  void close() noexcept;

  bool pending() const;
  Stats stats() const;
  void stats_reset();
  Explanation explain() const;           // since the start, or stats_reset()
  std::optional<bool> is_named() const;  // whether batches have names; empty before the first sample is accepted
  std::string device() const;            // "cpu", or the device's index
  const Config& config() const noexcept;

 private:
  std::shared_ptr<PipelineImpl> impl_;
};

}  // namespace damacy
