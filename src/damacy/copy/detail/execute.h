// How a block copy runs on a core, once its bounds are checked.
#pragma once

#include "damacy/copy/block.h"
#include "damacy/copy/detail/row_kernels.h"

namespace damacy::copy_detail {

// Faster or slower, never other bytes.
struct Manner {
  Isa isa = Isa::plain;
  bool stream = false;  // the destination is far larger than the cache
};

// `copy` has a conversion and is not empty; every byte it touches is there. Its finish, if any, is one of
// finish_kernel.
void execute(const BlockCopy& copy, const std::byte* src, std::byte* dst, const Manner& manner);

// Whether Manner::stream streams the rows of the copy: they are whole lines, or long.
[[nodiscard]] bool streams_rows(const BlockCopy& copy, const std::byte* dst) noexcept;

}  // namespace damacy::copy_detail
