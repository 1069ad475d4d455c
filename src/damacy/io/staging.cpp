// Device memory: not reached yet.
#include "damacy/io/detail/slices.h"

namespace damacy::detail {

RunResult move_staged(File&, Way, std::uint64_t, std::span<const Slice>, Operation&) {
  return {.bytes = 0, .error = ENOTSUP, .way = IoWay::staging};
}

}  // namespace damacy::detail
