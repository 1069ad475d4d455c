// The main job: samples in, batches out, in order. What each member promises is said in Python's docstrings.
// Any member may be called from any thread. Failures are Error; positions and stages are filled in.
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
#include "damacy/batch/stats.h"
#include "damacy/pipeline/explain.h"
#include "damacy/pipeline/surroundings.h"

namespace damacy {

class PipelineImpl;

class Pipeline {
 public:
  explicit Pipeline(Config config, Surroundings surroundings = {});
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
  // Those that come from a callable, until it gives none, or from a source: asked inside push, pop and flush only, for
  // as many as there is room for.
  void push(std::function<std::optional<Sample>()> next);
  void push(std::shared_ptr<SampleSource> source);

  Batch pop();                                  // waits at most Config::pop_timeout_s
  Batch pop(std::chrono::nanoseconds timeout);  // Error(again, kind pop_timeout) when it passes
  std::optional<Batch> try_pop();               // never waits; empty in place of Error(again)
  // A pop in two steps, for callers that something may interrupt between waiting and having: the first waits and throws
  // as pop does, but leaves what is due where it is; the second takes it, at once. Empty: nothing is due any more.
  using Deadline = std::optional<std::chrono::steady_clock::time_point>;
  void await_due(const Deadline& deadline);
  std::optional<Batch> take_due();
  // What take_due() threw could not be told: it is due again, before all else.
  void put_back(std::exception_ptr error);
  void flush();
  // Frees everything except slots that batches and tensors use. stats() and explain() then give the last figures.
  void close() noexcept;

  bool pending() const;
  Stats stats() const;
  void stats_reset();
  Explanation explain() const;  // since the start, or stats_reset()
  std::string device() const;   // "cpu", or the device's index
  const Config& config() const noexcept;

 private:
  std::shared_ptr<PipelineImpl> impl_;
};

}  // namespace damacy
