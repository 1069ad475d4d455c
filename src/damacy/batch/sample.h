// A sample: boxes of one or several arrays that become one row of each array of a batch. SampleSource: where samples
// come from.
#pragma once

#include <concepts>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "damacy/batch/config.h"
#include "damacy/core/dims.h"

namespace damacy {

// Half-open: every `step`-th element of [start, stop). Or single elements, in any order.
struct AxisRange {
  std::int64_t start = 0;
  std::int64_t stop = 0;
  std::int64_t step = 1;
  std::vector<std::int64_t> indices = {};  // not empty: these, whatever start, stop and step are
};

// Of all arrays, or of one.
struct SampleNumbers {
  std::string name;  // empty: of all
  ChannelNumbers numbers;
};

struct Sample {
  // One an axis, in level-0 elements. Any length: judged at push.
  using Ranges = std::vector<AxisRange>;
  struct Part {
    std::string name;  // the array's in the batch
    std::string uri;
    Ranges aabb;
    bool stacked = false;  // one of the parts of that name: an index of a new first axis, in order
  };

  std::string uri;
  Ranges aabb;
  // Its batch is complete with it, however few samples it has.
  bool ends_batch = false;
  // The caller's object for it, returned by Batch::origins(). If the sample reaches no batch, it is destroyed on any
  // thread, also under locks of the pipeline; its destructor must neither wait nor call back.
  std::shared_ptr<const void> origin = nullptr;
  // Of several arrays, or of one with a name. Where not empty, `uri` and `aabb` are not used.
  std::vector<Part> parts = {};
  // Where the i-th of these axes stands in a row, axis i of them comes to stand; then axes of the result are reversed.
  std::vector<AxisKey> transpose = {};
  std::vector<AxisKey> flip = {};
  // In place of those of the ArraySpec.
  std::vector<SampleNumbers> scale = {};
  std::vector<SampleNumbers> offset = {};
};

// The uris of a sample; of one with parts, of these.
template <class S, class Visit>
  requires std::same_as<std::remove_const_t<S>, Sample>
void for_uris(S& sample, Visit visit) {
  if (sample.parts.empty()) return visit(sample.uri);
  for (auto& part : sample.parts) visit(part.uri);
}

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
