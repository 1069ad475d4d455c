// Orders of axes: entry i of an order says which axis comes i-th.
#pragma once

#include "damacy/core/dims.h"

namespace damacy {

[[nodiscard]] inline Dims identity_order(std::size_t rank) noexcept {
  Dims order;
  for (std::size_t i = 0; i < rank; ++i) order.push_back(static_cast<std::int64_t>(i));
  return order;
}

// `inner` applied to what `outer` gave, as one order.
[[nodiscard]] inline Dims composed(const Dims& outer, const Dims& inner) noexcept {
  Dims order;
  for (const auto axis : inner) order.push_back(outer[static_cast<std::size_t>(axis)]);
  return order;
}

// Values listed in `order`, listed by axis.
[[nodiscard]] inline Dims by_axis(const Dims& listed, const Dims& order) noexcept {
  Dims values(order.size(), 0);
  for (std::size_t i = 0; i < order.size(); ++i) values[static_cast<std::size_t>(order[i])] = listed[i];
  return values;
}

}  // namespace damacy
