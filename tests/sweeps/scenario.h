// What a failure is injected into: short lives of a pipeline over a store in memory, and the laws that hold whatever
// fails. Knows pipelines and their promises; not what fails, nor when.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "damacy/device/alloc.h"
#include "damacy/io/memory_store.h"
#include "damacy/pipeline/pipeline.h"

namespace damacy::testing {

// Counts what is taken, and poisons it with a byte that changes with each use. Between guards of 256 bytes that must
// not change.
class GuardedAlloc final : public Alloc {
 public:
  std::byte* take(std::size_t bytes) override;
  void give(std::byte* memory, std::size_t bytes) noexcept override;
  std::uint64_t held() const noexcept { return held_; }
  std::uint64_t broken_guards() const noexcept { return broken_; }

 private:
  PageAlloc pages_;
  std::atomic<std::uint64_t> held_{0};
  std::atomic<std::uint64_t> broken_{0};
  std::atomic<unsigned> uses_{0};
};

// The parts of a run that failures come from. The store holds "a.zarr" (gzip chunks) and "s.zarr" (sharded, raw), and
// both hold at [i, j] the number 64 i + j.
struct World {
  std::shared_ptr<Store> store;
  std::shared_ptr<Alloc> alloc;    // of buffers
  std::shared_ptr<Device> device;  // null: the cores place batches
};
std::shared_ptr<MemoryStore> make_arrays();
// What a pipeline opens under that path.
std::shared_ptr<Store> store_below(std::shared_ptr<Store> both, std::string path);

// What came out of a run; `wrong` is empty when every law held.
struct Outcome {
  std::string wrong;
  bool refused = false;        // the constructor, or some call, threw
  std::int64_t delivered = 0;  // samples
};

struct Scenario {
  std::string name;
  std::function<void(const World&, Outcome&)> run;
};
const std::vector<Scenario>& scenarios();

// Descriptors and threads of this process.
struct Footprint {
  std::size_t descriptors = 0, threads = 0;
};
Footprint footprint();

}  // namespace damacy::testing
