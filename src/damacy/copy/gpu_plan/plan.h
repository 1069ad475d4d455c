// Converts placements to kernel records: chooses the kernel, counts the tiles, and writes the image for the upload.
// Knows what kernels need of a placement; not streams. For one thread.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "damacy/copy/gpu_plan/record.h"
#include "damacy/copy/placement.h"

namespace damacy::copy_cuda {

// `number`: from 1 to 2^31.
Divisor divisor(u64 number) noexcept;

// A launch of one kernel. `records` to `finishes` are bytes into the image.
struct Launch {
  u32 kernel = 0;
  u32 tiles = 0;
  u32 shift = 0;
  u32 count = 0;  // of records
  std::size_t records = 0;
  std::size_t first_tiles = 0;
  std::size_t near = 0;
  std::size_t finishes = 0;

  Group group(u64 image) const noexcept {
    return {reinterpret_cast<const Record*>(image + records), reinterpret_cast<const u32*>(image + first_tiles),
            reinterpret_cast<const u32*>(image + near), reinterpret_cast<const Finish*>(image + finishes), shift};
  }
};

class Plan {
 public:
  // At most; so that it costs little to ask.
  static std::size_t image_bytes(std::span<const Placement> placements);

  // `placements` must not change meanwhile.
  explicit Plan(std::span<const Placement> placements);
  std::span<const Launch> launches() const noexcept { return launches_; }
  void write(std::span<std::byte> image) const;

 private:
  struct Part {  // of a launch
    u32 placement;
    u32 kernel;
    u64 tiles;
  };
  void add_finish(const Finish* finish);

  std::span<const Placement> placements_;
  std::vector<const Finish*> finishes_;  // distinct
  std::unordered_map<const Finish*, u32> number_of_finish_;
  std::unique_ptr<Record[]> records_;  // by placement; without their divisors
  std::vector<Part> parts_;            // by kernel, then as they came
  std::vector<Launch> launches_;
};

// One placement as a record, and its kernel.
struct Planned {
  Record record;
  u32 kernel;
  u64 tiles;  // 0: nothing to do
};
Planned plan_placement(const Placement& placement) noexcept;

}  // namespace damacy::copy_cuda
