// A sample: the box of an array that becomes one row of a batch. SampleSource: where samples come from.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "damacy/core/dims.h"

namespace damacy {

struct Sample {
  std::string uri;
  // One (start, stop) an axis, half-open, in level-0 elements. Any length: judged at push.
  std::vector<std::pair<std::int64_t, std::int64_t>> aabb;
  // Its batch is complete with it, however few samples it has.
  bool ends_batch = false;
  // The caller's object for it, returned by Batch::origins(). If the sample reaches no batch, it is destroyed on any
  // thread, also under locks of the pipeline; its destructor must neither wait nor call back.
  std::shared_ptr<const void> origin = nullptr;
};

// Advanced only inside push, pop and flush, on the calling thread, one call at a time.
class SampleSource {
 public:
  virtual ~SampleSource() = default;
  virtual std::optional<Sample> next() = 0;  // empty: exhausted. What it throws ends the source.
  // Whether the number of its samples is known. Other sources count as unbounded after too many samples beyond a flush.
  virtual bool has_length() const { return false; }
  // Whether an exception of next() may wait for its place in the stream. If not (Ctrl-C), it leaves the call at once.
  // If it may, this releases objects that the exception would keep alive.
  virtual bool set_aside(const std::exception_ptr&) const { return true; }
};

class VectorSource final : public SampleSource {
 public:
  explicit VectorSource(std::vector<Sample> samples) : samples_(std::move(samples)) {}
  std::optional<Sample> next() override {
    if (at_ == samples_.size()) return std::nullopt;
    return std::move(samples_[at_++]);
  }
  bool has_length() const override { return true; }

 private:
  std::vector<Sample> samples_;
  std::size_t at_ = 0;
};

class CallableSource final : public SampleSource {
 public:
  explicit CallableSource(std::function<std::optional<Sample>()> next) : next_(std::move(next)) {}
  std::optional<Sample> next() override { return next_(); }

 private:
  std::function<std::optional<Sample>()> next_;
};

}  // namespace damacy
