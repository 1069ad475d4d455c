// Reads of an opened array by selections: what Array::read does, and the same without waiting. Reads, decodes and
// copies on threads that the process keeps for single reads, one a core.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "damacy/zarr/array.h"
#include "damacy/zarr/array_selection.h"

namespace damacy {

class DeviceWaves;
struct SelectionRequest;

// A read under way. The memory that it writes to stays until it has ended. One thread uses it.
class ArrayRead {
 public:
  ArrayRead(ArrayRead&&) noexcept;
  ArrayRead& operator=(ArrayRead&&) noexcept;
  ~ArrayRead();  // cancels the read, and waits for its end

  bool done() const;
  bool wait_for(std::chrono::nanoseconds timeout);  // false: it has not ended yet
  // Waits. Throws why it failed; Error(shutdown) if it was cancelled.
  void get();
  void cancel() noexcept;  // parts that have not started are left out

 private:
  friend ArrayRead begin_read(std::shared_ptr<const Array>, const ResolvedSelection&, const ReadOutput&, DeviceWaves*);
  friend ArrayRead begin_read(std::shared_ptr<const Array>, const ResolvedPoints&, const ReadOutput&, DeviceWaves*);
  friend class Array;
  friend void read_stretches(const Array&, std::span<const std::vector<AxisStretch>>, std::span<std::byte>,
                             const std::stop_token&);
  static ArrayRead begin(std::shared_ptr<const Array> array, SelectionRequest request, const ReadOutput& out,
                         DeviceWaves* waves);
  static void read_and_wait(const Array& array, SelectionRequest request, const ReadOutput& out,
                            const std::stop_token& stop);
  class State;
  explicit ArrayRead(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

// Starts to read what `what` selects into `out`. Elements of missing chunks are the array's fill value. Throws Error:
// (rank) or (inval, "aabb") if the selection does not fit the array, or `out` the selection; (dtype, "dtype") if
// elements cannot be converted; (inval, "limit") for more pieces than Limits::chunks_per_sample; (inval, "no-device")
// if memory is said to be a GPU's but is not; (cuda, "capture") if its stream is capturing a graph.
[[nodiscard]] ArrayRead begin_read(std::shared_ptr<const Array> array, const Selection& what, const ReadOutput& out);
[[nodiscard]] ArrayRead begin_read(std::shared_ptr<const Array> array, const PointSelection& what,
                                   const ReadOutput& out);

// The same with the waves of that device in place of those of the GPU that has the memory; null: the host.
[[nodiscard]] ArrayRead begin_read(std::shared_ptr<const Array> array, const ResolvedSelection& what,
                                   const ReadOutput& out, DeviceWaves* waves);
[[nodiscard]] ArrayRead begin_read(std::shared_ptr<const Array> array, const ResolvedPoints& what,
                                   const ReadOutput& out, DeviceWaves* waves);

// The size of the cache of decoded chunks for reads of this process into host memory, Array::read among them; 0, the
// first, keeps nothing. Chunks are kept whose changes later reads would notice: of files that were written more than
// two seconds before, and of objects that have a version. Another size begins an empty cache; reads under way keep the
// one that they have. A forked child has the same setting, and a cache of its own. Throws Error(oom), after it has
// freed the cache: the next read makes one of the size before.
void set_read_cache(std::uint64_t bytes);
[[nodiscard]] std::uint64_t read_cache_setting() noexcept;  // as it was set, in this process or its parent

// Reads the elements whose index on each axis is in one of the axis's stretches, in their order, as Array::read does.
// Throws Error(inval, "aabb") for an index outside the array or a wrong size of `out`, and Error(inval, "limit") for
// more pieces than Limits::chunks_per_sample. After a stop it starts no more parts and throws Error(shutdown).
void read_stretches(const Array& array, std::span<const std::vector<AxisStretch>> axes, std::span<std::byte> out,
                    const std::stop_token& stop = {});

}  // namespace damacy
