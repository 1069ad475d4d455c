// Drives a pipeline and holds what it does against the laws that hold whatever fails: samples come out once, in order
// and whole, or are reported as lost; nothing hangs. Knows a pipeline's promises; not what fails, nor when.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "damacy/core/error.h"
#include "damacy/pipeline/pipeline.h"
#include "sweeps/scenario.h"

namespace damacy::testing {

class Driver {
 public:
  Driver(const World& world, Config config, Outcome& outcome);
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  // False: the constructor threw; every call is then without effect.
  bool alive() const { return pipeline_.has_value(); }
  Pipeline& pipeline() { return *pipeline_; }

  void push(std::int64_t count, std::string_view array = "a.zarr");
  void flush();
  // False: nothing to pop now.
  bool pop(bool hold = false);
  void drain();
  void release_held();
  // Every accepted sample was delivered, or reported as lost.
  void expect_complete();

 private:
  template <class Call>
  void attempt(Call call);
  void wrong(std::string what);
  void record(const Error& error);
  void step_to(std::int64_t index);
  void check(const Batch& batch);
  void check_row(std::span<const std::byte> row, bool valid);

  Outcome& outcome_;
  Config config_;
  std::optional<Pipeline> pipeline_;
  std::vector<Sample> pushed_;
  std::vector<Batch> held_;
  std::size_t next_pushed_ = 0;
  std::int64_t seen_ = 0, next_index_ = 0, last_id_ = -1;
  int pops_ = 0;
};

}  // namespace damacy::testing
