// The two arrays that scenarios read, in a store in memory: "a.zarr" has zstd chunks, "s.zarr" is sharded and raw. Both
// hold at [i, j] the number 64 i + j.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "damacy/batch/sample.h"
#include "damacy/store/memory_store.h"

namespace damacy::testing {

inline constexpr std::int64_t kColumns = 64;
inline constexpr std::int64_t kBoxRows = 5, kBoxColumns = 20;
inline constexpr std::uint16_t kFill = 7;

std::shared_ptr<MemoryStore> make_arrays();
// What a pipeline opens under that path.
std::shared_ptr<Store> store_below(std::shared_ptr<Store> both, std::string path);
// The n-th box, of 5 x 20 elements.
Sample sample_at(std::int64_t n, std::string_view array);

}  // namespace damacy::testing
