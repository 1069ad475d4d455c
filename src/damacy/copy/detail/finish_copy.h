// A block copy whose elements are finished on their way: converted, computed and converted in the first cache, a few
// thousand elements at a time.
#pragma once

#include "damacy/copy/detail/execute.h"
#include "damacy/copy/finish.h"

namespace damacy::copy_detail {

// As execute(), of a copy whose operation has a finish.
void execute_finished(const BlockCopy& copy, const std::byte* src, std::byte* dst, const Manner& manner);

// Side by side, in the working type.
using ScaleKernel = void (*)(const Finish& finish, void* elements, std::size_t count);
[[nodiscard]] ScaleKernel scale_kernel(bool is_wide, Isa isa) noexcept;

}  // namespace damacy::copy_detail
