// Copies whose rows lie next to each other in the destination, as those of neighbouring chunks do: their rows are
// converted into one, which is written as whole lines past the caches. A line that two copies share would be read from
// memory before each writes its part.
#pragma once

#include <cstddef>
#include <span>

#include "damacy/copy/block.h"
#include "damacy/copy/detail/execute.h"

namespace damacy::copy_detail {

// How many of the first copies have rows that join and are worth streaming; 1 if only the first. All copies are
// normalised and not empty.
[[nodiscard]] std::size_t count_joined(std::span<const SourcedCopy> copies, const std::byte* dst) noexcept;

// Runs copies that count_joined() has counted; every byte that they touch is there.
void execute_joined(std::span<const SourcedCopy> copies, std::byte* dst, Isa isa);

}  // namespace damacy::copy_detail
