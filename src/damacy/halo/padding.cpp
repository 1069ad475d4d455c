#include "damacy/halo/spec.h"

#include <algorithm>

#include "damacy/core/checked.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"

namespace damacy::halo {

Dims padded_shape(std::span<const std::string> dims, const Dims& shape, std::span<const Cells> widths) {
  if (shape.size() != widths.size())
    throw Error(Status::inval,
                formatted("expected a tensor with dims {} (got shape {})", names_text(dims), tuple_text(shape.span())));
  Dims padded;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const auto cells = checked_add(widths[axis].start, widths[axis].stop);
    const auto length = cells ? checked_add(shape[axis], *cells) : std::nullopt;
    if (!length)
      throw Error(Status::inval, formatted("dimension {}: {} cells with padding of {} and {}", dims[axis], shape[axis],
                                           widths[axis].start, widths[axis].stop));
    padded.push_back(*length);
  }
  return padded;
}

Box interior_of(const Dims& padded, std::span<const Cells> widths) {
  Box box{padded, padded};
  for (std::size_t axis = 0; axis < std::min(padded.size(), widths.size()); ++axis) {
    box.start[axis] = widths[axis].start;
    box.stop[axis] -= widths[axis].stop;
  }
  return box;
}

Dims padded_strides(const Dims& padded, const Dims& shape, const Dims& strides) {
  return dense_strides(padded, memory_order(shape, strides));
}

std::vector<Box> edges_of(std::span<const std::string> dims, const Dims& padded,
                          std::span<const std::string> decomposed, std::span<const Cells> unowned) {
  std::vector<Box> out;
  for (std::size_t n = 0; n < std::min(decomposed.size(), unowned.size()); ++n) {
    const auto axis = static_cast<std::size_t>(std::ranges::find(dims, decomposed[n]) - dims.begin());
    if (axis == dims.size())
      throw Error(Status::inval, formatted("dimension {} is not one of {}", decomposed[n], names_text(dims)));
    const auto [before, after] = unowned[n];
    const Box all{Dims(padded.size(), 0), padded};
    if (before > 0) out.emplace_back(all).stop[axis] = before;
    if (after > 0) out.emplace_back(all).start[axis] = padded[axis] - after;
  }
  return out;
}

}  // namespace damacy::halo
